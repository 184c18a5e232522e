package posthaste

import "strings"

// imperative returns the verb that makes a name a command, or nothing. In dotted names the verb stands last
// (order.confirm), in CamelCase commands first (ConfirmOrder); a noun that is spelled like a verb may stand first where
// the last word is in the past tense (transfer.completed).
func imperative(words []string) string {
	first, last := words[0], words[len(words)-1]
	switch {
	case imperatives[last]:
		return last
	case imperatives[first] && !strings.HasSuffix(last, "ed"):
		return first
	}
	return ""
}

// imperatives are verbs that commands begin with. Verbs that are their own past tense (set, put, reset, cut, split) are
// not among them, as they can't be told apart.
var imperatives = set(`
	abort accept acknowledge activate add adjust allocate allow amend apply approve archive assign attach authorize
	block book build buy calculate cancel capture change charge check clear close collect complete compute confirm
	connect convert copy create credit deactivate debit decline decrease delete deliver deny deposit detach disable
	dismiss dispatch do draw edit emit enable enqueue enroll ensure enter execute expire export fail fetch fill find
	finish fix flag forward freeze fulfil fulfill generate get give grant handle hold ignore import increase initiate
	insert install invite invoice issue join keep launch leave link load lock login logout make mark merge modify move
	notify open pack pause pay perform persist pick place prepare print process provision publish purchase
	queue raise receive record redeem refresh refund register reject release remove rename renew reopen reorder
	replace replenish report request require resend reserve resolve restart restock restore resume retry return
	revert review revoke save schedule search select sell send ship sign start stop store submit subscribe suspend
	swap sync take terminate track transfer transform trigger unblock unfreeze unlink unlock unregister unsubscribe
	update upgrade upload upsert validate verify void withdraw write
`)

func set(list string) map[string]bool {
	m := map[string]bool{}
	for _, word := range strings.Fields(list) {
		m[word] = true
	}
	return m
}

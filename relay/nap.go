package relay

import "time"

// nap decides when a relay tells writers that it sleeps. A relay that sleeps polls at its interval as ever; that
// writers wake it only makes it faster.
//
// The word is out before writers are looked at, and that is done before the read that comes along. So whoever writes
// after the word sees it; whoever wrote before it is either on the list or has committed, and then the read sees the
// events. Until all on the list have ended, the relay polls with growing pauses: they wake nobody.
//
//	awake --> nodding (Doze is on its way) --> wary --> asleep
//	  ^                                          |         |
//	  +------ Rise: events come, or none is read +---------+
type nap struct {
	state   napState
	writers map[string]struct{} // that are waited for, while wary
	woken   bool                // by a word that came after the latest read had begun
	useless int                 // words of writers, in a row, that were followed by no events of ours
	since   time.Time           // when the first of them came
	after   time.Time           // no Doze before
}

type napState int

const (
	awake napState = iota
	nodding
	wary
	asleep
)

// Where others' events come so often that each second brings more useless words than this, it is dearer for the writers
// to say them than for this relay to poll a while.
const (
	maxUseless  = 10
	uselessTerm = time.Second
)

// word returns what is to be said with the next read: of a relay that may sleep, or that must not.
func (n *nap) word(may bool) Sleep {
	switch {
	case n.state == awake && may:
		n.state = nodding
		return Doze
	case n.state != awake && !may:
		return Rise
	}
	return AsBefore
}

// said takes in what came of an exchange: its word, and the look at the writers, if one was made.
func (n *nap) said(word Sleep, r Result) {
	switch {
	case word == Rise, word == Doze && !r.Dozing:
		n.state, n.writers = awake, nil
	case word == Doze:
		n.state, n.writers = wary, make(map[string]struct{}, len(r.Horizon.Writers))
		for _, w := range r.Horizon.Writers {
			n.writers[w.ID] = struct{}{}
		}
		fallthrough
	case n.state == wary && r.Horizon != nil:
		if ended(n.writers, r.Horizon.Writers) {
			n.state, n.writers = asleep, nil
		}
	}
}

// wake takes in the word of a writer. It tells whether a read is wanted: who is awake hears what is said to others.
func (n *nap) wake() bool {
	n.woken = n.woken || n.state != awake
	return n.woken
}

// takeWord tells whether the read that begins now answers a word.
func (n *nap) takeWord() bool {
	woken := n.woken
	n.woken = false
	return woken
}

// answered takes in whether a read that answers a word brought events, or may bring some soon.
func (n *nap) answered(useful bool, now time.Time) {
	if useful {
		n.useless = 0
		return
	}
	if n.useless == 0 || now.Sub(n.since) > uselessTerm {
		n.useless, n.since = 0, now
	}
	if n.useless++; n.useless > maxUseless {
		n.useless, n.after = 0, now.Add(uselessTerm)
	}
}

// restless tells whether the relay has had enough of useless words, for now.
func (n *nap) restless(now time.Time) bool { return now.Before(n.after) }

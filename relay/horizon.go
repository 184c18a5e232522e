package relay

import (
	"math"
	"strings"
)

// horizon finds H, the id up to which no row can appear any more.
//
// A writer takes the RowExclusiveLock of the table before the statement that inserts draws an id, and keeps it until
// its transaction ends. So when the sequence is read first and the holders of that lock are listed afterwards, every id
// up to the sequence's value belongs to a transaction that has ended or is on the list. Once all on the list have
// ended, those ids are final.
type horizon struct {
	final   int64               // H
	last    int64               // the sequence at the latest look
	pending int64               // becomes final when the writers of waiting have ended
	waiting map[string]struct{} // nil while nothing is pending
	looked  bool
}

func newHorizon() horizon { return horizon{final: noHorizon} }

// observe takes one look in. It tells whether the sequence went backwards: ids up to the old H can then appear anew,
// and nothing that was final is.
func (h *horizon) observe(look Horizon) (backwards bool) {
	backwards = look.Last < h.last
	if backwards {
		*h = newHorizon()
	}
	h.last, h.looked = look.Last, true
	if h.waiting != nil && ended(h.waiting, look.Writers) {
		h.final, h.waiting = h.pending, nil
	}
	switch {
	case len(look.Writers) == 0:
		h.final, h.waiting = look.Last, nil
	case h.waiting == nil:
		h.pending = look.Last
		h.waiting = make(map[string]struct{}, len(look.Writers))
		for _, w := range look.Writers {
			h.waiting[w.ID] = struct{}{}
		}
	}
	return backwards
}

// ended drops from waiting whoever has ended and tells whether none is left. A writer may live on under the name of a
// recovered transaction, -1/xid: whichever of those are new when a writer with a name of a session is gone may be it.
func ended(waiting map[string]struct{}, present []Writer) bool {
	here := make(map[string]bool, len(present))
	for _, w := range present {
		here[w.ID] = true
	}
	renamed := false
	for id := range waiting {
		if !here[id] {
			renamed = renamed || !recovered(id)
			delete(waiting, id)
		}
	}
	for _, w := range present {
		if renamed && w.Prepared && recovered(w.ID) {
			waiting[w.ID] = struct{}{}
		}
	}
	return len(waiting) == 0
}

func recovered(id string) bool { return strings.HasPrefix(id, "-1/") }

// noHorizon is H before the first look, and always where ids do not come one by one from a sequence: nothing is final.
const noHorizon = math.MinInt64

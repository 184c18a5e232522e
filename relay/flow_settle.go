package relay

import "slices"

// carries tells whether an event of one of the lanes is in flight or waits to be settled.
func (f *flow) carries(lanes []int) bool {
	has := func(e *Event) bool { return slices.Contains(lanes, e.Lane) }
	return slices.ContainsFunc(f.sending, has) || slices.ContainsFunc(f.open, has) ||
		slices.ContainsFunc(f.acked, has) || slices.ContainsFunc(f.settling, has)
}

// idle tells whether nothing is in flight and nothing waits to be settled.
func (f *flow) idle() bool {
	return len(f.sending)+len(f.open)+len(f.acked)+len(f.settling)+len(f.refused) == 0
}

// nextSettle moves what is acknowledged to settling.
func (f *flow) nextSettle() []Ref {
	f.settling, f.acked = append(f.settling, f.acked...), nil
	refs := make([]Ref, len(f.settling))
	for i, e := range f.settling {
		refs[i] = Ref{e.ID, e.EventID}
	}
	return refs
}

// settled forgets what was settled; unsettled makes it wait for another try.
func (f *flow) settled() {
	for _, e := range f.settling {
		f.forget(e)
	}
	f.settling = nil
}

func (f *flow) unsettled() {
	f.acked, f.settling = append(f.settling, f.acked...), nil
}

func (f *flow) forget(e *Event) {
	delete(f.known, e.ID)
	delete(f.left, e.ID)
	f.bytes -= e.Size()
}

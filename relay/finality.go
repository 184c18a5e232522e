package relay

// Finality follows a series of Horizons and tells the id up to which no row can appear any more, for whoever reads an
// outbox beside the relays. Make it with NewFinality.
type Finality struct{ h horizon }

// NewFinality returns one that has seen nothing, so no id is final.
func NewFinality() *Finality { return &Finality{newHorizon()} }

// Observe takes in one look, made before the read that relies on it. Rows up to final that this read does not find
// will never be there. backwards says that the sequence fell, by a truncation or a restore: ids seen before may come
// again.
func (f *Finality) Observe(look Horizon) (final int64, backwards bool) {
	backwards = f.h.observe(look)
	return f.h.final, backwards
}

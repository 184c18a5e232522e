package relay

import "math/bits"

// LaneSet is a set of lanes out of a known number. The zero value is empty.
type LaneSet struct {
	bits  []byte // lane i is bit i%8 of byte i/8, as PostgreSQL's get_bit counts
	total int
}

// NewLaneSet returns the set of the given lanes out of total, which is a power of two.
func NewLaneSet(total int, lanes ...int) LaneSet {
	s := LaneSet{bits: make([]byte, (total+7)/8), total: total}
	for _, l := range lanes {
		s.bits[l/8] |= 1 << (l % 8)
	}
	return s
}

// Has tells whether the lane is in the set.
func (s LaneSet) Has(lane int) bool {
	return lane >= 0 && lane < s.total && s.bits[lane/8]&(1<<(lane%8)) != 0
}

// Len counts the lanes in the set.
func (s LaneSet) Len() int {
	n := 0
	for _, b := range s.bits {
		n += bits.OnesCount8(b)
	}
	return n
}

// Total is the number of lanes that the set is out of.
func (s LaneSet) Total() int { return s.total }

// All tells whether no lane is missing.
func (s LaneSet) All() bool { return s.total > 0 && s.Len() == s.total }

// Bits returns the set for SQL's get_bit(bits, lane).
func (s LaneSet) Bits() []byte { return s.bits }

// List returns the lanes in order.
func (s LaneSet) List() []int {
	var lanes []int
	for l := range s.total {
		if s.Has(l) {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

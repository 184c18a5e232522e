package postgres

import "math"

// Page says which rows of a list are wanted, by their ids.
type Page struct {
	Limit       int   // at most this many
	OldestFirst bool  // else the highest ids come first
	Above       int64 // ids above this only, 0 for any
	Below       int64 // ids below this only, 0 for any
}

func (p Page) above() int64 {
	if p.Above == 0 {
		return math.MinInt64
	}
	return p.Above
}

func (p Page) below() int64 {
	if p.Below == 0 {
		return math.MaxInt64
	}
	return p.Below
}

func (p Page) direction() string {
	if p.OldestFirst {
		return ""
	}
	return " desc"
}

// turnPages reads a list a part at a time, and hands its rows to emit when no statement is open. It tells whether
// there are more than the limit.
func turnPages[T any](p Page, atOnce int, emit func(T) error, id func(T) int64,
	read func(Page) ([]T, error)) (more bool, err error) {
	for left := p.Limit; ; left -= atOnce {
		size := min(left, atOnce)
		p.Limit = size + 1 // one more tells whether it was the last part
		rows, err := read(p)
		if err != nil {
			return false, err
		}
		more = len(rows) > size
		for _, row := range rows[:min(len(rows), size)] {
			if err := emit(row); err != nil {
				return false, err
			}
		}
		if !more || left <= atOnce {
			return more, nil
		}
		if p.OldestFirst {
			p.Above = id(rows[size-1])
		} else {
			p.Below = id(rows[size-1])
		}
	}
}

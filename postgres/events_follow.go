package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/relay"
)

// EventFollow asks for events as they come.
type EventFollow struct {
	EventFilter
	Last     int // first, at most this many of the newest thousand events, as far as they match
	Interval time.Duration
	Payload  bool
	Note     func(string) // takes a sentence where something may have been missed
}

// The bounds of a Follow.
const (
	followAtOnce = 5_000 // rows a statement
	followGaps   = 2_000 // gaps that are remembered
	followBack   = 1_000 // rows below the newest in which the first gaps are looked for
)

// Follow hands on events as they become visible, until the context ends; then it returns nil. Those that commit late,
// below ids that were handed on already, come when they commit: every gap among the ids is looked at again until no
// transaction that could fill it is open any more.
//
// Not promised: an event that is deleted within an interval, as a relay in settle mode delete does, is not seen;
// neither is one of a transaction that was open at the start and drew its id more than a thousand events before. With
// more than two thousand gaps the lowest are given up, which Note tells.
func (e *Events) Follow(ctx context.Context, q EventFollow, emit func(StoredEvent) error) error {
	all := q.EventFilter
	all.State = EventsAll // the walk is over all ids
	if err := e.need(&all); err != nil {
		return err
	}
	f := &follower{events: e, query: q, final: relay.NewFinality(), highest: math.MinInt64}
	err := f.start(ctx, emit)
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(q.Interval):
			err = f.step(ctx, emit)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return e.explain("follow events", err)
}

// follower is a Follow at work.
type follower struct {
	events  *Events
	query   EventFollow
	final   *relay.Finality
	highest int64 // every id above is new; at first the lowest of all
	gaps    gaps  // ids below that may still come
}

// start finds the newest events and the gaps among them.
func (f *follower) start(ctx context.Context, emit func(StoredEvent) error) error {
	final, _, err := f.look(ctx)
	if err != nil {
		return err
	}
	all := EventList{MaxLook: followBack}
	w, err := f.events.window(ctx, &all, followBack)
	if err != nil {
		return err
	}
	slices.Reverse(w.ids)
	if !w.end {
		f.highest = w.ids[0] - 1
	}
	f.sawNew(w.ids)
	f.gaps.drop(final)
	if f.query.Last == 0 || w.rows == 0 {
		return nil
	}
	shown := EventList{EventFilter: f.query.EventFilter, Below: f.highest + 1}
	w, err = f.events.window(ctx, &shown, followBack)
	if err != nil {
		return err
	}
	ids := w.ids[:min(len(w.ids), f.query.Last)]
	slices.Reverse(ids)
	for _, id := range ids {
		f.gaps.fill(id) // one that committed since the first window
	}
	return f.emit(ctx, ids, emit)
}

// look finds the id up to which nothing can appear any more.
func (f *follower) look(ctx context.Context) (final int64, backwards bool, err error) {
	e := f.events
	if e.sequence == "" {
		return math.MinInt64, false, nil
	}
	var h relay.Horizon
	if err := e.conn.QueryRow(ctx, lastValueSQL+e.sequence).Scan(&h.Last); err != nil {
		return 0, false, err
	}
	rows, err := e.conn.Query(ctx, writersOf(e.names))
	if err != nil {
		return 0, false, err
	}
	if h.Writers, err = pgx.CollectRows(rows, pgx.RowToStructByPos[relay.Writer]); err != nil {
		return 0, false, err
	}
	final, backwards = f.final.Observe(h)
	if backwards {
		f.highest, f.gaps = h.Last, nil
	}
	return final, backwards, nil
}

// step looks once. The look at the writers comes before the reads, so that what is final by it has been read after it.
func (f *follower) step(ctx context.Context, emit func(StoredEvent) error) error {
	final, backwards, err := f.look(ctx)
	if err != nil {
		return err
	}
	if backwards {
		f.query.Note(fmt.Sprintf("the ids have begun again, by a truncation or a restore; following from id %d",
			f.highest))
	}
	for full := true; full; {
		var ids, matching []int64
		if ids, matching, err = f.readNew(ctx); err != nil {
			return err
		}
		full = len(ids) == followAtOnce
		f.sawNew(ids)
		if err := f.emit(ctx, matching, emit); err != nil {
			return err
		}
	}
	ids, matching, err := f.readGaps(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		f.gaps.fill(id)
	}
	if len(ids) < followAtOnce {
		f.gaps.drop(final)
	}
	if lost := f.gaps.bound(followGaps); lost > 0 {
		f.query.Note(fmt.Sprintf("more than %d gaps among the ids wait for open transactions; events up to id %d that "+
			"commit from now on are not shown", followGaps, lost))
	}
	return f.emit(ctx, matching, emit)
}

// sawNew takes ids in, in order, that were above all others.
func (f *follower) sawNew(ids []int64) {
	for _, id := range ids {
		if id > f.highest+1 {
			f.gaps = append(f.gaps, gap{f.highest + 1, id - 1})
		}
		f.highest = id
	}
}

// followSQL tells the ids of some rows, and which of them match. Plan: one index scan over the newest rows, or one
// for each gap.
const followSQL = `
select coalesce(array_agg(id), '{}'), coalesce(array_agg(id) filter (where {{match}}), '{}') from ({{rows}}) seen`

const newRowsSQL = `
select ` + filterColumns + ` from {{table}} where {{id}} > $2::bigint order by {{id}} limit $1`

const gapRowsSQL = `
select e.* from unnest($2::bigint[], $3::bigint[]) gap (low, high),
    lateral (
        select ` + filterColumns + ` from {{table}}
        where {{id}} >= gap.low and {{id}} <= gap.high order by {{id}} limit $1
    ) e
limit $1`

func (f *follower) read(ctx context.Context, rows string, args ...any) (ids, matching []int64, err error) {
	sql := strings.NewReplacer("{{match}}", f.query.match(&args), "{{rows}}", rows).Replace(followSQL)
	err = looking(ctx, f.events.conn, lookLimit, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, f.events.sql(sql), args...).Scan(&ids, &matching)
	})
	slices.Sort(ids)
	slices.Sort(matching)
	return ids, matching, err
}

func (f *follower) readNew(ctx context.Context) (ids, matching []int64, err error) {
	return f.read(ctx, newRowsSQL, followAtOnce, f.highest)
}

func (f *follower) readGaps(ctx context.Context) (ids, matching []int64, err error) {
	if len(f.gaps) == 0 {
		return nil, nil, nil
	}
	low, high := make([]int64, len(f.gaps)), make([]int64, len(f.gaps))
	for i, g := range f.gaps {
		low[i], high[i] = g.low, g.high
	}
	return f.read(ctx, gapRowsSQL, followAtOnce, low, high)
}

func (f *follower) emit(ctx context.Context, ids []int64, emit func(StoredEvent) error) error {
	list := EventList{Payload: f.query.Payload}
	for some := range slices.Chunk(ids, rowsAtOnce) {
		if _, err := f.events.emit(ctx, &list, some, emit); err != nil {
			return err
		}
	}
	return nil
}

// gaps are the ids that may still come, in order.
type gaps []gap

type gap struct{ low, high int64 }

// fill takes an id out.
func (g *gaps) fill(id int64) {
	for i, x := range *g {
		if id < x.low || id > x.high {
			continue
		}
		var rest []gap
		if x.low < id {
			rest = append(rest, gap{x.low, id - 1})
		}
		if id < x.high {
			rest = append(rest, gap{id + 1, x.high})
		}
		*g = slices.Replace(*g, i, i+1, rest...)
		return
	}
}

// drop takes every id up to final out.
func (g *gaps) drop(final int64) {
	*g = slices.DeleteFunc(*g, func(x gap) bool { return x.high <= final })
	if len(*g) > 0 {
		(*g)[0].low = max((*g)[0].low, final+1)
	}
}

// bound keeps the highest so many and tells the highest id given up, 0 for none.
func (g *gaps) bound(most int) (lost int64) {
	if over := len(*g) - most; over > 0 {
		lost = (*g)[over-1].high
		*g = slices.Delete(*g, 0, over)
	}
	return lost
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Status is one look at an outbox from outside. Times are those of the database clock.
type Status struct {
	Now      time.Time
	Standby  bool // the server replays another one's changes: what it shows is a little old, and it shows no locks
	Outbox   *Outbox
	Problems []Problem    // what keeps a relay from working
	Backlog  *Backlog     // nil: not counted, Uncounted says why
	Relays   []Relays     // a group each, that of all other topics first; nil: no side tables could be read
	Parked   *ParkedCount // nil: not known
	Pauses   []Pause      // the oldest first
	Writers  *Writers     // nil: not known, as on a standby

	Uncounted string
}

// Look reads the Status. It needs no more than select on the outbox table and the side tables, changes nothing, and
// costs a bounded amount whatever the table's size: none of its statements on the table runs for longer than two
// seconds.
//
// What is wrong with the outbox stands in Problems. An error is one of the connection.
func Look(ctx context.Context, conn *pgx.Conn, names Names) (*Status, error) {
	s := &Status{}
	if err := s.inspect(ctx, conn, names); err != nil {
		return nil, err
	}
	parts := []func(context.Context, *pgx.Conn) error{s.lookAtClock, s.lookAtRelays, s.lookAtParked, s.lookAtWriters,
		s.lookAtBacklog}
	for _, part := range parts {
		if err := part(ctx, conn); err != nil {
			return nil, fmt.Errorf("look at outbox %s: %w", names.Table, err)
		}
	}
	return s, nil
}

func (s *Status) inspect(ctx context.Context, conn *pgx.Conn, names Names) error {
	names.Group = "" // all groups are seen
	c, o, err := lookAsReader(ctx, conn, names)
	if locked, ok := errors.AsType[*SchemaError](err); ok {
		s.Outbox, s.Problems = &Outbox{Names: names}, locked.Problems
		s.Outbox.Server.Database = conn.Config().Database
		return nil
	}
	if err != nil {
		return err
	}
	if schema, ok := errors.AsType[*SchemaError](c.judge([]Right{RightRead})); ok {
		s.Problems = schema.Problems
	}
	s.Outbox, s.Standby = o, c.standby
	return nil
}

const clockSQL = `select clock_timestamp()`

func (s *Status) lookAtClock(ctx context.Context, conn *pgx.Conn) (err error) {
	s.Now, err = clock(ctx, conn)
	return err
}

// clock returns the database's clock.
func clock(ctx context.Context, conn *pgx.Conn) (now time.Time, err error) {
	err = conn.QueryRow(ctx, clockSQL).Scan(&now)
	return now, err
}

// broken tells whether any of the problems is of one of these kinds.
func (s *Status) broken(kinds ...error) (Problem, bool) {
	for _, p := range s.Problems {
		for _, kind := range kinds {
			if errors.Is(p, kind) {
				return p, true
			}
		}
	}
	return Problem{}, false
}

// statusLimit bounds a statement of Look.
const statusLimit = 2 * time.Second

// MaxCounted is how many unpublished events Look counts. Of more it says that there are more.
const MaxCounted = 100_000

// Backlog is what waits to be published.
type Backlog struct {
	Count  int  // up to MaxCounted
	Capped bool // there are more than Count

	// Estimate is about how many there are where the count is capped, and Source is where that comes from; "" for none.
	Estimate int64
	Source   string

	LowestID int64 // of those counted, 0 for none

	// Oldest is the smallest created_at of those counted, zero for none. It is when the writer's transaction began,
	// or what the writer put there, so it may lie in the future (years beyond 1 and 9999 become those); when the event
	// was committed is not known.
	Oldest time.Time
}

// backlogSQL walks over the partial index from the lowest id. What the walk costs beyond its limit, dead entries that
// a long transaction elsewhere keeps, the statement's timeout bounds.
const backlogSQL = `
select count(*), coalesce(min(id), 0), min(created_at) filter (where isfinite(created_at))
from (
    select {{id}} as id, {{created}} as created_at from {{table}}
    where {{published_at}} is null order by {{id}} limit $1
) waiting`

// backlogStatement does without the time where the table has none.
func (o *Outbox) backlogStatement() string {
	created := "{{created_at}}"
	if !o.Names.Columns.Has("created_at") || slices.Contains(o.Lacks, "created_at") {
		created = "null::timestamptz"
	}
	return o.Names.sql(strings.ReplaceAll(backlogSQL, "{{created}}", created))
}

func (s *Status) lookAtBacklog(ctx context.Context, conn *pgx.Conn) error {
	if p, ok := s.broken(ErrBusy, ErrNoTable, ErrColumn, ErrIndex); ok {
		s.Uncounted = p.Cause
		return nil
	}
	var b Backlog
	err := looking(ctx, conn, statusLimit, func(tx pgx.Tx) error {
		var oldest pgtype.Timestamptz
		err := tx.QueryRow(ctx, s.Outbox.backlogStatement(), MaxCounted+1).Scan(&b.Count, &b.LowestID, &oldest)
		if err != nil {
			return err
		}
		if oldest.Valid {
			b.Oldest = printable(oldest)
		}
		if b.Capped = b.Count > MaxCounted; !b.Capped {
			return nil
		}
		b.Count = MaxCounted
		return b.estimate(ctx, tx, s.Outbox)
	})
	refusal, refused := errors.AsType[*pgconn.PgError](err)
	switch {
	case tooLong(err):
		s.Uncounted = fmt.Sprintf("counting took longer than %v: the table is locked, or a transaction that has been "+
			"open for long keeps dead entries in its index", statusLimit)
	case refused:
		s.Uncounted = refusal.Message
	case err != nil:
		return err
	default:
		s.Backlog = &b
	}
	return nil
}

const (
	analyzedSQL = `
select max(greatest(last_analyze, last_autoanalyze)) from pg_stat_all_tables
where relid = {{literal}}::regclass or relid in (select relid from pg_partition_tree({{literal}}::regclass))`

	plannedSQL = `explain (format json) select from {{table}} where {{published_at}} is null`
)

// estimate asks the planner, which knows how large the table is now and which part of it was unpublished at the last
// analyze. Without one the ids drawn since the lowest unpublished one are a bound.
func (b *Backlog) estimate(ctx context.Context, tx pgx.Tx, o *Outbox) error {
	var analyzed *time.Time
	if err := tx.QueryRow(ctx, o.Names.sql(analyzedSQL)).Scan(&analyzed); err != nil {
		return err
	}
	if analyzed != nil {
		var plans []struct {
			Plan struct {
				Rows int64 `json:"Plan Rows"`
			}
		}
		if err := tx.QueryRow(ctx, o.Names.sql(plannedSQL)).Scan(&plans); err != nil {
			return err
		}
		if len(plans) == 1 && plans[0].Plan.Rows > MaxCounted {
			b.Estimate = plans[0].Plan.Rows
			b.Source = "PostgreSQL's statistics of " + analyzed.UTC().Format("2006-01-02 15:04:05 MST")
			return nil
		}
	}
	if !o.SequenceTrusted {
		return nil
	}
	var last int64
	if err := tx.QueryRow(ctx, lastValueSQL+o.Sequence).Scan(&last); err != nil {
		return err
	}
	b.Estimate = max(last-b.LowestID+1, MaxCounted+1)
	b.Source = "the ids drawn since the lowest of them, an upper bound"
	return nil
}

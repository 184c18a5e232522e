package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"golang.org/x/sync/errgroup"

	"posthaste.dev/posthaste/relay"
)

// session is a connection for reading and settling, with another one beside it while there is much to settle.
//
// An exchange is one pipeline of statements up to one Sync: one round trip, and by the rules of the extended protocol
// one transaction, without the cost of begin and commit. Of a large settle, half goes another way at the same time.
type session struct {
	conn   *pgx.Conn
	aside  *aside // nil behind a pooler, where connections are scarce
	outbox *Outbox
	reader *eventReader
	local  string // the settings of a transaction
	pooled bool   // the session has no settings of its own
	// outdated tells whether the outbox was found to be another than this session takes it for.
	outdated func() bool
	settle   settleSQL
	look     []string // the sequence, then the writers; nil where they prove nothing
	park     string

	orders  string
	release releaseTexts

	ghostsFrom int64 // parked events above it are looked at next
}

func newSession(conn *pgx.Conn, outbox *Outbox, pooled bool, cfg Config) *session {
	s := &session{conn: conn, outbox: outbox, pooled: pooled, reader: newReader(outbox),
		outdated: func() bool { return false }, ghostsFrom: math.MinInt64}
	s.local = localSQL(outbox.Server.Version, settleSettings(cfg.SettleSync))
	s.settle = settleSQL(outbox.Names.sql(outbox.widen(markSQL)))
	if cfg.Settle == relay.SettleDelete {
		s.settle = settleSQL(outbox.Names.sql(outbox.widen(deleteSQL)))
	}
	s.park, s.release = outbox.fill(parkSQL), newReleaseTexts(outbox)
	s.orders = outbox.Names.sql(ordersSQL, "{{outbox}}", "$1")
	if outbox.SequenceTrusted {
		s.look = []string{lastValueSQL + outbox.Sequence, writersOf(outbox.Names)}
	}
	return s
}

func (s *session) Horizons() bool { return s.look != nil }

func (s *session) Close() {
	closeNow(s.conn)
	s.aside.close()
}

// The id alone would settle a newer event after TRUNCATE ... RESTART IDENTITY or the restore of a dump. Plan: one look
// into an index for each id, and the pairs as a hashed subplan. "is true" keeps the planner from making a join of it:
// without statistics it hashed the whole backlog for each chunk, 1.2 s for 300,000 rows.
const (
	markSQL   = `update {{table}} set {{published_at}} = now()` + unpublishedPairs
	deleteSQL = `delete from {{table}}` + unpublishedPairs

	unpublishedPairs = `
where {{id}} = any($1{{wides}}) and (({{id}}, {{event_id}}) in (select * from unnest($1::bigint[], $2::uuid[]))) is true
  and {{published_at}} is null`
)

// writersSQL lists who may have drawn ids that are not in view yet: whoever holds the lock of a writer on the table
// or a partition of it. No pid is left out: behind a pooler it may serve anybody. A prepared transaction has no pid.
const writersSQL = `
select l.virtualtransaction, l.pid is null
from pg_locks l
where l.locktype = 'relation' and l.mode = 'RowExclusiveLock'
  and l.database = (select oid from pg_database where datname = current_database())
  and (l.relation = {{literal}}::regclass
       or l.relation in (select relid from pg_partition_tree({{literal}}::regclass)))`

func writersOf(n Names) string { return n.sql(writersSQL) }

// Exchange runs one pipeline: look, park, release, read, settle.
func (s *session) Exchange(ctx context.Context, x relay.Exchange) (relay.Result, error) {
	var result relay.Result
	if s.outdated() {
		return result, errChanged
	}
	settle, meanwhile := s.aside.share(x.Settle)
	batch := &pgx.Batch{}
	if s.pooled || len(settle) > 0 {
		batch.Queue(s.local)
	}
	s.queueSleep(batch, x.Sleep, &result) // before the look: who writes after it sees the lock
	if x.Horizon && s.look != nil {
		result.Horizon = &relay.Horizon{}
		batch.Queue(s.look[0]).QueryRow(func(row pgx.Row) error { return row.Scan(&result.Horizon.Last) })
		batch.Queue(s.look[1]).Query(func(rows pgx.Rows) (err error) {
			result.Horizon.Writers, err = pgx.CollectRows(rows, pgx.RowToStructByPos[relay.Writer])
			return err
		})
	}
	if len(x.Park) > 0 {
		batch.Queue(s.park, parkArgs(x.Member, x.Park)...).Query(func(rows pgx.Rows) (err error) {
			result.Parked, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		})
	}
	s.queueRelease(batch, x, &result)
	if x.Read != nil {
		s.reader.queue(batch, x.Read, false, &result)
	}
	if len(settle) > 0 { // last: meanwhile the rows are taken in
		s.settle.queue(batch, settle, &result.Settled)
	}
	settled := 0 // meanwhile
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.conn.SendBatch(ctx, batch).Close() })
	if meanwhile != nil {
		group.Go(func() (err error) {
			settled, err = meanwhile(ctx)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return result, exchangeError(err)
	}
	result.Settled += settled
	return result, nil
}

// settleSQL marks or deletes what is published.
type settleSQL string

// queue puts a settle into a pipeline, which will add to the count how many rows it has found unpublished.
func (sql settleSQL) queue(batch *pgx.Batch, refs []relay.Ref, settled *int) {
	ids, eventIDs := split(refs)
	batch.Queue(string(sql), ids, eventIDs).Exec(func(tag pgconn.CommandTag) error {
		*settled += int(tag.RowsAffected())
		return nil
	})
}

func split(refs []relay.Ref) (ids []int64, eventIDs []pgtype.UUID) {
	ids, eventIDs = make([]int64, len(refs)), make([]pgtype.UUID, len(refs))
	for i, r := range refs {
		ids[i], eventIDs[i] = r.ID, pgtype.UUID{Bytes: r.EventID, Valid: true}
	}
	return ids, eventIDs
}

// exchangeError names the failures that the relay tells apart.
func exchangeError(err error) error {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == "55P03" {
		return fmt.Errorf("%w: %s", relay.ErrRowsLocked, refusal.Message)
	}
	return fmt.Errorf("exchange with PostgreSQL: %w", advised(err))
}

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/relay"
)

// membership is one row of the member table, and the connection whose advisory lock proves that its process lives.
type membership struct {
	store  *Store
	conn   *pgx.Conn
	outbox *Outbox
	id     int32
	pooled bool
	// listening is the oid of the table whose writers' notifications are asked for, 0 while none are.
	listening uint32

	sql   memberSQL
	check check
}

// memberSQL holds the statements with their names filled in.
type memberSQL struct {
	// local has the settings of a transaction; "" where the session has them.
	local string

	beat, evict, lock, take, release, leave, resizeLock, resize string
}

// Join puts a row into the member table. The advisory lock is taken before the row can be seen, so a member that others
// see without its lock is one whose connection has ended. Ids are never used again.
//
// Behind a pooler the lock proves nothing, since its connections to the server are not the clients': the server's pid
// is then another than the one that the pooler gave at connect, and such a member is known by its lease alone.
func (s *Store) Join(ctx context.Context) (relay.Membership, error) {
	conn, outbox, pooled, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	m := &membership{store: s, conn: conn, outbox: outbox, pooled: pooled}
	if err := m.join(ctx, s.cfg, s.cluster()); err != nil {
		closeNow(conn)
		return nil, fmt.Errorf("join the relays of outbox %s: %w", outbox.Names.Table, err)
	}
	n := outbox.Names
	m.sql = memberSQL{
		beat: n.sql(beatSQL), evict: n.sql(evictSQL),
		lock: n.sql(outboxLockSQL), take: n.sql(takeSQL), release: n.sql(releaseSQL), leave: n.sql(leaveSQL),
		resizeLock: n.sql(resizeLockSQL), resize: n.sql(resizeSQL),
	}
	if err := m.listen(ctx); err != nil {
		closeNow(conn)
		return nil, err
	}
	m.check.begin()
	if pooled {
		m.sql.local = localSQL(outbox.Server.Version, nil)
	}
	return m, nil
}

const (
	// joinSQL waits for whoever is giving the outbox to another Kafka cluster, and inserts nothing once that is done.
	joinSQL = `
insert into {{schema}}.member (outbox, name, version, session)
select $1::int, $2, $3, $4::boolean from {{schema}}.outbox
where id = $5 and ($6 = '' or cluster_id is null or cluster_id = $6) for share
returning id`

	memberLockSQL = `select pg_try_advisory_lock($1, $2)`
)

func (m *membership) join(ctx context.Context, cfg Config, cluster string) error {
	tx, err := m.conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	err = tx.QueryRow(ctx, m.outbox.Names.sql(joinSQL), m.outbox.ID, cfg.Member, cfg.Version, !m.pooled,
		m.outbox.BaseID, cluster).Scan(&m.id)
	if errors.Is(err, pgx.ErrNoRows) {
		return errors.New("the outbox, or the Kafka cluster that it belongs to, was just changed")
	}
	if err != nil {
		return err
	}
	if !m.pooled {
		var locked bool
		if err := tx.QueryRow(ctx, memberLockSQL, m.outbox.LockClass, m.id).Scan(&locked); err != nil {
			return err
		}
		if !locked {
			return errors.New("somebody else holds the advisory lock of a new member; " +
				"do two outboxes share a lock class?")
		}
	}
	return tx.Commit(ctx)
}

func (m *membership) ID() int { return int(m.id) }

func (m *membership) Close() {
	m.check.end()
	closeNow(m.conn)
}

const (
	// beatSQL leaves the rate unknown at the first beat, and where the clock was set back.
	beatSQL = `
update {{schema}}.member set
    beat = beat + 1, beat_at = clock_timestamp(), published = $2, held = $3, trouble = nullif($4, ''),
    waiting = $5::jsonb,
    per_second = case when clock_timestamp() > beat_at
        then ($2 - published) / extract(epoch from clock_timestamp() - beat_at)::float8 end
where id = $1 returning clock_timestamp()`

	// viewSQL is all that a beat looks at, as one statement: an idle relay makes two a second beside its polls. It
	// tries the lock of every other member; the tries end with the transaction. Who can be locked is gone.
	viewSQL = `
select peers.*, o.generation, coalesce(o.next_lanes, 0),
       array(select coalesce(l.owner, 0) from {{schema}}.lane l where l.outbox = o.id order by l.lane),
       array(select l.epoch from {{schema}}.lane l where l.outbox = o.id order by l.lane),
       coalesce(o.topics, '{}'),
       array(select t from {{schema}}.outbox g, unnest(g.topics) t where g.name = o.name and o.topics is null),
       {{last}}, orders.*
from {{schema}}.outbox o, (
    select array_agg(id), array_agg(beat), array_agg(gone) from (
        select id, beat,
               case when session and id <> $3 and $4 then pg_try_advisory_xact_lock($2, id) else false end as gone
        from {{schema}}.member where outbox = $1 order by id) member
) peers, (` + ordersSQL + `) orders
where o.id = $1`
)

// viewOf is viewSQL for an outbox: the sequence is read where its last value bounds ids to come.
func viewOf(o *Outbox) string {
	last := "-1"
	if o.SequenceTrusted {
		last = "(" + lastValueSQL + o.Sequence + ")"
	}
	return o.Names.sql(viewSQL, "{{last}}", last, "{{outbox}}", "$5")
}

// batch begins a pipeline, which is one transaction.
func (m *membership) batch() *pgx.Batch {
	batch := &pgx.Batch{}
	if m.sql.local != "" {
		batch.Queue(m.sql.local)
	}
	return batch
}

// Beat is one pipeline. Now and then it begins a look at the outbox, whose findings a later one tells.
func (m *membership) Beat(ctx context.Context, r relay.Report) (relay.View, error) {
	if err := m.look(); err != nil {
		return relay.View{}, err
	}
	if err := m.listen(ctx); err != nil {
		return relay.View{}, err
	}
	v := relay.View{Pooled: m.pooled, Last: -1, Listens: m.listening != 0}
	evicted := false
	var ids, owners []int
	var beats, epochs []int64
	var gone []bool
	var orders ordersRow
	var ours, others []relay.Pattern
	batch := m.batch()
	waiting, err := waitingJSON(r.Waiting)
	if err != nil {
		return v, fmt.Errorf("beat as member %d: %w", m.id, err)
	}
	batch.Queue(m.sql.beat, m.id, r.Published, r.Held, plainText(r.Trouble), waiting).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&v.Now)
		evicted = errors.Is(err, pgx.ErrNoRows)
		if evicted {
			return nil
		}
		return err
	})
	batch.Queue(viewOf(m.outbox), m.outbox.ID, m.outbox.LockClass, m.id, !m.pooled, m.outbox.BaseID).QueryRow(
		func(row pgx.Row) error {
			return row.Scan(append([]any{&ids, &beats, &gone, &v.Generation, &v.NextLanes, &owners, &epochs, &ours,
				&others, &v.Last}, orders.dest()...)...)
		})
	if err := m.conn.SendBatch(ctx, batch).Close(); err != nil {
		return v, fmt.Errorf("beat as member %d: %w", m.id, advised(err))
	}
	if evicted {
		return v, relay.ErrEvicted
	}
	for i, id := range ids {
		v.Peers = append(v.Peers, relay.Peer{ID: id, Beat: beats[i], Gone: gone[i]})
	}
	v.Orders = orders.orders()
	for i, owner := range owners {
		v.Lanes = append(v.Lanes, relay.Lane{Owner: owner, Epoch: epochs[i]})
	}
	v.Wanted = groupChoice(ours, others)
	return v, nil
}

// plainText keeps what every database can store: a beat must not fail over the wording of an error that it tells of.
func plainText(s string) string {
	const longest = 500
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s[:min(len(s), longest)])
}

// maxWaiting bounds what a beat tells of.
const maxWaiting = 200

// waitingJSON is nil while nothing waits.
func waitingJSON(list []relay.Waiting) (*string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	told := slices.Clone(list[:min(len(list), maxWaiting)])
	for i := range told {
		told[i].Reason = plainText(told[i].Reason)
	}
	text, err := json.Marshal(told)
	if err != nil {
		return nil, err
	}
	s := strings.ReplaceAll(string(text), `\u0000`, "?")
	return &s, nil
}

const (
	// evictSQL deletes members whose beat has not moved since it was seen, and frees their lanes and those of nobody.
	evictSQL = `
with gone as (
    delete from {{schema}}.member m using unnest($2::int[], $3::bigint[]) d (id, beat)
    where m.outbox = $1 and m.id = d.id and m.beat = d.beat
    returning m.id)
update {{schema}}.lane l set owner = null, epoch = epoch + 1
where l.outbox = $1 and l.owner is not null
  and (l.owner in (select id from gone) or not exists (select from {{schema}}.member m where m.id = l.owner))`

	// outboxLockSQL keeps the number of lanes as it is until the transaction ends.
	outboxLockSQL = `select from {{schema}}.outbox where id = $1 for share`

	takeSQL = `
update {{schema}}.lane set owner = $2, epoch = epoch + 1
where outbox = $1
  and lane in (
    select lane from {{schema}}.lane where outbox = $1 and owner is null order by lane limit $3 for update skip locked)
  and exists (select from {{schema}}.member where id = $2)
  and exists (select from {{schema}}.outbox where id = $1 and next_lanes is null and generation = $4)
returning lane`

	releaseSQL = `
update {{schema}}.lane set owner = null, epoch = epoch + 1 where outbox = $1 and owner = $2 and lane = any($3)`

	leaveSQL = `
with me as (delete from {{schema}}.member where id = $2)
update {{schema}}.lane set owner = null, epoch = epoch + 1 where outbox = $1 and owner = $2`
)

// Act evicts and takes in one transaction.
func (m *membership) Act(ctx context.Context, dead []relay.Peer, take int, generation int64) ([]int, error) {
	ids, beats := make([]int32, len(dead)), make([]int64, len(dead))
	for i, p := range dead {
		ids[i], beats[i] = int32(p.ID), p.Beat
	}
	var lanes []int
	batch := m.batch()
	batch.Queue(m.sql.lock, m.outbox.ID)
	batch.Queue(m.sql.evict, m.outbox.ID, ids, beats)
	if take > 0 {
		batch.Queue(m.sql.take, m.outbox.ID, m.id, take, generation).Query(func(rows pgx.Rows) (err error) {
			lanes, err = pgx.CollectRows(rows, pgx.RowTo[int])
			return err
		})
	}
	if err := m.conn.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("take lanes: %w", err)
	}
	return lanes, nil
}

// Release sets lanes free.
func (m *membership) Release(ctx context.Context, lanes []int) error {
	if _, err := m.conn.Exec(ctx, m.sql.release, m.outbox.ID, m.id, lanes); err != nil {
		return fmt.Errorf("release lanes: %w", err)
	}
	return nil
}

// Leave sets all lanes free and takes the row away.
func (m *membership) Leave(ctx context.Context) error {
	if _, err := m.conn.Exec(ctx, m.sql.leave, m.outbox.ID, m.id); err != nil {
		return fmt.Errorf("leave the relays of the outbox: %w", err)
	}
	return nil
}

// Wait listens on the connection, so that its end is known at once.
func (m *membership) Wait(ctx context.Context, woken func()) error {
	for {
		_, err := m.conn.WaitForNotification(ctx)
		switch {
		case err == nil:
			woken()
		case ctx.Err() != nil && !m.conn.IsClosed():
			return nil
		default:
			return fmt.Errorf("the connection of member %d broke: %w", m.id, advised(err))
		}
	}
}

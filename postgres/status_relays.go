package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"posthaste.dev/posthaste/relay"
)

// Relays are the members of an outbox and its lanes, seen at one moment: no lane has two owners. Relays in claim mode
// skip-locked and those of others are no members and don't show.
type Relays struct {
	Group     string          // "" for the relays of all topics that no group has
	Topics    []relay.Pattern // of the group
	Members   []Member
	Lanes     int // all of them
	NextLanes int // the number they change to, 0: no change under way
	Free      []int
	Stray     []int // owned by somebody who is no member; the next beat of a relay frees them
}

// Alive counts the members that live.
func (r *Relays) Alive() int {
	n := 0
	for _, m := range r.Members {
		if m.State == MemberAlive {
			n++
		}
	}
	return n
}

// MemberState is how a member looks from outside.
type MemberState string

// The states. Other relays evict the stale and the gone when they next look; without another relay they stay.
const (
	MemberAlive MemberState = "alive"
	MemberStale MemberState = "stale" // silent for longer than StaleAfter
	MemberGone  MemberState = "gone"  // its connection has ended
)

// StaleAfter is the default of POSTHASTE_RELAY_LEASE. What a relay's own lease is, nobody else knows.
const StaleAfter = 5 * time.Second

// Member is one running relay, by what it last told.
type Member struct {
	ID       int
	Name     string // host and process
	Version  string
	State    MemberState
	Pooled   bool // it is behind a transaction pooler: whether it is gone shows only by its beat
	Lanes    []int
	JoinedAt time.Time
	BeatAge  time.Duration

	Published int64           // events that Kafka has acknowledged since it started
	PerSecond *float64        // of them, between its latest two beats, about a second; nil: not known yet
	Held      int             // topics and keys that wait after a failure of their own; its log and /metrics name them
	Waiting   []relay.Waiting // topics that it finds missing or forbidden, and partitions that do not answer
	Trouble   string          // why it is not ready, "" while it can make progress
}

// lockHeld tells whether the advisory lock of a member m of outbox o is held. A member with a session lives exactly as
// long as that; one behind a pooler has no lock.
const lockHeld = `(o.lock_class::oid, m.id::oid) in (
        select l.classid, l.objid from pg_locks l
        where l.locktype = 'advisory' and l.granted and l.objsubid = 2
          and l.database = (select oid from pg_database where datname = current_database()))`

const seenMembersSQL = `
select m.outbox, m.id, m.name, m.version, m.session, m.joined_at, clock_timestamp() - m.beat_at,
       coalesce(m.published, 0), m.per_second, m.held, coalesce(m.trouble, ''),
       coalesce(m.waiting, '[]')::text, ` + lockHeld + `
from {{schema}}.member m join {{schema}}.outbox o on o.id = m.outbox where o.name = $1 order by m.id`

const seenLanesSQL = `
select o.id, o.topic_group, coalesce(o.topics, '{}'), o.lanes, coalesce(o.next_lanes, 0),
       array(select coalesce(l.owner, 0) from {{schema}}.lane l where l.outbox = o.id order by l.lane)
from {{schema}}.outbox o where o.name = $1 order by o.topic_group`

// ReadRelays reads members and lanes alone, of every group. A *SchemaError says why there is nothing to read.
func ReadRelays(ctx context.Context, conn *pgx.Conn, names Names) ([]Relays, error) {
	s := &Status{}
	err := s.inspect(ctx, conn, names)
	if err == nil {
		err = s.lookAtRelays(ctx, conn)
	}
	if err == nil && s.Relays == nil {
		err = &SchemaError{Outbox: names.Table.String(), Problems: s.Problems}
	}
	return s.Relays, err
}

func (s *Status) lookAtRelays(ctx context.Context, conn *pgx.Conn) error {
	if s.Outbox.ID == 0 {
		return nil
	}
	var relays []Relays
	err := looking(ctx, conn, statusLimit, func(tx pgx.Tx) (err error) {
		relays, err = s.readRelays(ctx, tx)
		return err
	})
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok { // a missing right is among the problems already
		if refusal.Code != "42501" {
			s.Problems = append(s.Problems, Problem{ErrNoSideSchema,
				"the side tables can't be read: " + refusal.Message, "run: " +
					s.Outbox.Names.command("migrate status")})
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read relays: %w", err)
	}
	s.Relays = relays
	return nil
}

// readRelays reads on one snapshot.
func (s *Status) readRelays(ctx context.Context, tx pgx.Tx) ([]Relays, error) {
	names := s.Outbox.Names
	rows, err := tx.Query(ctx, names.sql(seenMembersSQL), names.Table.String())
	if err != nil {
		return nil, err
	}
	members := map[int][]Member{} // by the id of the group
	var group int
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Member, error) {
		m, err := s.member(row, &group)
		members[group] = append(members[group], m)
		return m, err
	})
	if err != nil {
		return nil, err
	}
	if rows, err = tx.Query(ctx, names.sql(seenLanesSQL), names.Table.String()); err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Relays, err error) {
		var owners []int
		err = row.Scan(&group, &r.Group, &r.Topics, &r.Lanes, &r.NextLanes, &owners)
		r.Members = members[group]
		r.share(owners)
		return r, err
	})
}

func (s *Status) member(row pgx.CollectableRow, group *int) (Member, error) {
	var m Member
	var session, locked bool
	var waiting []byte
	err := row.Scan(group, &m.ID, &m.Name, &m.Version, &session, &m.JoinedAt, &m.BeatAge, &m.Published, &m.PerSecond,
		&m.Held, &m.Trouble, &waiting, &locked)
	_ = json.Unmarshal(waiting, &m.Waiting) // a newer relay may tell what this program can't read
	m.Pooled = !session
	switch {
	case session && !locked && !s.Standby: // a standby knows no advisory locks
		m.State = MemberGone
	case m.BeatAge > StaleAfter:
		m.State = MemberStale
	default:
		m.State = MemberAlive
	}
	return m, err
}

// share gives every member its lanes.
func (r *Relays) share(owners []int) {
	for lane, owner := range owners {
		i := slices.IndexFunc(r.Members, func(m Member) bool { return m.ID == owner })
		switch {
		case owner == 0:
			r.Free = append(r.Free, lane)
		case i < 0:
			r.Stray = append(r.Stray, lane)
		default:
			r.Members[i].Lanes = append(r.Members[i].Lanes, lane)
		}
	}
}

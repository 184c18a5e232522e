package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/relay"
)

// TopicGroup is a part of an outbox's topics that has relays of its own: members that serve it, and no others, ship its
// events, over lanes of its own. The relays without a group ship every topic that no group has, so no event is left out
// and none is shipped twice, as long as each group has a relay.
type TopicGroup struct {
	Name   string // "" stands for the topics that no group has
	Topics []relay.Pattern
	Lanes  int
	Relays int // members, living or not yet found dead
}

const groupsSQL = `
select topic_group, coalesce(topics, '{}'), lanes, (select count(*) from {{schema}}.member m where m.outbox = o.id)
from {{schema}}.outbox o where name = $1 order by topic_group`

// Groups lists the groups of the outbox; the first is that of all other topics.
func Groups(ctx context.Context, conn *pgx.Conn, names Names) ([]TopicGroup, error) {
	if err := Check(ctx, conn, names, RightRead); err != nil {
		return nil, err
	}
	return groups(ctx, conn, names)
}

func groups(ctx context.Context, db reader, names Names) ([]TopicGroup, error) {
	rows, err := db.Query(ctx, names.sql(groupsSQL), names.Table.String())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[TopicGroup])
}

const (
	groupLockClassSQL = `hashtext('posthaste member ' || $5 || ' ' || $1 || ' ' || $2) & 2147483647`

	insertGroupSQL = `
insert into {{schema}}.outbox (name, topic_group, topics, lanes, created, lock_class)
values ($1, $2, $3, $4, false, ` + groupLockClassSQL + `)
on conflict (name, topic_group) do update set topics = excluded.topics`

	groupLanesSQL = `
insert into {{schema}}.lane (outbox, lane)
select o.id, n from {{schema}}.outbox o, generate_series(0, o.lanes - 1) n where o.name = $1 and o.topic_group = $2
on conflict do nothing`

	removeGroupSQL = `delete from {{schema}}.outbox where name = $1 and topic_group = $2`
)

var groupName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// SetGroup makes a group of topics, or gives one other topics. It refuses topics that another group has, and with
// ErrMembers while relays of the outbox run: which relay ships what must not change under them. Lanes count for a new
// group only, 0 standing for DefaultLanes.
func SetGroup(ctx context.Context, conn *pgx.Conn, names Names, g TopicGroup) error {
	if err := g.Check(); err != nil {
		return fmt.Errorf("set group %s: %w", g.Name, err)
	}
	if g.Lanes == 0 {
		g.Lanes = DefaultLanes
	}
	err := changeGroups(ctx, conn, names, func(tx pgx.Tx) error {
		others, err := groups(ctx, tx, names)
		if err != nil {
			return err
		}
		if err := g.refuseOverlap(others); err != nil {
			return err
		}
		table := names.Table.String()
		if _, err := tx.Exec(ctx, names.sql(insertGroupSQL), table, g.Name, g.Topics, g.Lanes,
			names.Schema); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, names.sql(groupLanesSQL), table, g.Name)
		return err
	})
	if err != nil {
		return fmt.Errorf("set group %s: %w", g.Name, err)
	}
	return nil
}

// RemoveGroup gives the group's topics to the relays without a group. It refuses with ErrMembers while relays of the
// outbox run, and with ErrGroup where there is no such group.
func RemoveGroup(ctx context.Context, conn *pgx.Conn, names Names, name string) error {
	err := changeGroups(ctx, conn, names, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, names.sql(removeGroupSQL), names.Table.String(), name)
		if err == nil && (name == "" || tag.RowsAffected() == 0) {
			return Problem{ErrGroup, fmt.Sprintf("outbox %s has no group %q", names.Table, name),
				names.command("groups") + " lists those that there are"}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove group %s: %w", name, err)
	}
	return nil
}

// changeGroups runs a change alone: no migration and no other change meanwhile, and no relay can join, since its row
// refers to one that is locked here.
func changeGroups(ctx context.Context, conn *pgx.Conn, names Names, change func(pgx.Tx) error) error {
	if err := Check(ctx, conn, names, RightRead); err != nil {
		return err
	}
	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		for _, lock := range []struct{ sql, arg string }{
			{migrateLockSQL, names.Schema}, {names.sql(lockOutboxSQL), names.Table.String()},
		} {
			if _, err := tx.Exec(ctx, lock.sql, lock.arg); err != nil {
				return translate(err)
			}
		}
		if err := refuseMembers(ctx, tx, names); err != nil {
			return err
		}
		return change(tx)
	})
	return translate(err)
}

// Check names everything that a group can't have.
func (g TopicGroup) Check() error {
	var errs []error
	if !groupName.MatchString(g.Name) {
		errs = append(errs,
			fmt.Errorf("name %q: want up to 63 lower-case letters, digits, dots, dashes and underscores", g.Name))
	}
	if len(g.Topics) == 0 {
		errs = append(errs, errors.New("a group needs topics"))
	}
	for _, p := range g.Topics {
		errs = append(errs, p.Check())
	}
	if g.Lanes != 0 {
		errs = append(errs, CheckLanes(g.Lanes))
	}
	return errors.Join(errs...)
}

// refuseOverlap names the first topics that another group has as well.
func (g TopicGroup) refuseOverlap(others []TopicGroup) error {
	for _, other := range others {
		if other.Name == g.Name {
			continue
		}
		for _, theirs := range other.Topics {
			for _, ours := range g.Topics {
				if ours.Overlaps(theirs) {
					return Problem{ErrGroup,
						fmt.Sprintf("topics %q overlap with topics %q of group %s", ours, theirs, other.Name),
						"a topic can be in one group only: choose patterns that no topic matches both of"}
				}
			}
		}
	}
	return nil
}

// groupChoice returns the topics that a member of a group wants, from its group's patterns and, without a group, those
// of all groups.
func groupChoice(ours, others []relay.Pattern) relay.Choice {
	var choice relay.Choice
	for _, p := range ours {
		choice = append(choice, relay.Case{Match: p, Want: true})
	}
	for _, p := range others {
		choice = append(choice, relay.Case{Match: p})
	}
	if len(others) > 0 {
		choice = append(choice, relay.Case{Match: "*", Want: true})
	}
	return choice
}

func (n Names) noGroup() Problem {
	name := n.Group
	n.Group = ""
	return Problem{ErrGroup, fmt.Sprintf("outbox %s has no group %q", n.Table, name),
		"make it: " + n.command("groups set "+shellQuote(name)+" --topics PATTERNS") +
			", or leave POSTHASTE_RELAY_GROUP out"}
}

package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// operatorConn connects as a role with the rights of an operator, as migrate --print-grants gives them.
func (b *bed) operatorConn(t *testing.T) *pgx.Conn {
	t.Helper()
	name, conn := b.role()
	roles := postgres.DefaultRoles()
	roles.Operator = name
	sql, err := postgres.GrantsSQL(t.Context(), b.admin, b.names, roles)
	must(t, err)
	_, operators, _ := strings.Cut(sql, "-- Operators")
	exec(t, b.admin, "--"+operators)
	return conn
}

func (b *bed) operator(t *testing.T) *postgres.Operator {
	t.Helper()
	return openOperator(t, b.operatorConn(t), b.names)
}

func openOperator(t *testing.T, conn *pgx.Conn, names postgres.Names) *postgres.Operator {
	t.Helper()
	op, err := postgres.OpenOperator(t.Context(), conn, names)
	must(t, err)
	return op
}

// park parks the events of a condition, as a relay would.
func (b *bed) park(t *testing.T, scope, condition string) {
	t.Helper()
	exec(t, b.admin, fmt.Sprintf(`
insert into posthaste.parked (outbox, id, event_id, topic, key, aggregate_type, aggregate_id, event_type, scope, class,
    reason, attempts)
select o.id, e.id, event_id, topic, partition_key, aggregate_type, aggregate_id, event_type, '%s', 'refused',
       'too large', 1
from outbox_event e, posthaste.outbox o where o.topic_group = '' and %s`, scope, condition))
}

var alice = postgres.By{Actor: "alice@bastion", Reason: "INC-1"}

// acts tells what the audit table holds, the oldest first.
func acts(t *testing.T, op *postgres.Operator) (list []postgres.AuditEntry) {
	t.Helper()
	_, err := op.Audit(t.Context(), postgres.AuditList{Page: postgres.Page{Limit: 1000, OldestFirst: true}},
		func(a postgres.AuditEntry) error {
			list = append(list, a)
			return nil
		})
	must(t, err)
	return list
}

// Whoever may look and no more is told what is missing, and leaves nothing behind.
func TestOperatorNeedsRights(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		b.write(t, "t", "k")
		b.park(t, "key", "true")
		name, conn := b.role()
		exec(t, b.admin, "grant usage on schema posthaste, public to "+name, "grant select on outbox_event to "+name,
			"grant select on all tables in schema posthaste to "+name)
		op := openOperator(t, conn, b.names)
		c, err := op.Choose(t.Context(), postgres.ParkedFilter{})
		must(t, err)
		if _, _, err := op.Holds(t.Context(), postgres.HoldFilter{Limit: 10}); err != nil || len(c.Refs) != 1 {
			t.Errorf("a role that may look sees %+v and %v", c, err)
		}
		_, err = op.Request(t.Context(), postgres.Retry, c, alice)
		wantProblem(t, err, postgres.ErrRights, "--print-grants")
		_, err = op.Pause(t.Context(), relay.Scope{Kind: relay.ScopeAll}, alice)
		wantProblem(t, err, postgres.ErrRights, "permission denied")
		wantProblem(t, op.LookAgain(t.Context(), "t", alice), postgres.ErrRights, "permission denied")

		// An act that can't be written down is not done.
		all := b.operatorConn(t)
		exec(t, b.admin, "revoke insert on posthaste.audit from "+all.Config().User)
		_, err = openOperator(t, all, b.names).Request(t.Context(), postgres.Retry, c, alice)
		wantProblem(t, err, postgres.ErrRights, "audit")
		if got := query(t, b.admin, "select count(request) from posthaste.parked"); got != "0" {
			t.Errorf("%s requests without a record of them", got)
		}

		_, err = postgres.OpenOperator(t.Context(), conn, names(t, "outbox_event", "elsewhere"))
		wantProblem(t, err, postgres.ErrNoSideSchema, "migrate up")
	})
}

// What waits belongs to the outbox, whichever group of topics ships it.
func TestOperatorWorksForAllGroups(t *testing.T) {
	t.Parallel()
	b := newBed(t, anyMajor(t))
	must(t, postgres.SetGroup(t.Context(), b.admin, b.names,
		postgres.TopicGroup{Name: "critical", Topics: []relay.Pattern{"orders.*"}, Lanes: 4}))
	b.write(t, "orders.made", "k")
	b.park(t, "key", "true")
	grouped := b.names
	grouped.Group = "critical"
	op := openOperator(t, b.admin, grouped)
	c, err := op.Choose(t.Context(), postgres.ParkedFilter{})
	if must(t, err); len(c.Refs) != 1 {
		t.Errorf("chosen %+v", c)
	}
	_, err = op.Pause(t.Context(), relay.Scope{Kind: relay.ScopeTopic, Topic: "orders.made"}, alice)
	must(t, err)
	must(t, op.LookAgain(t.Context(), "orders.made", alice))
	const base = "(select id from posthaste.outbox where topic_group = '')"
	if got := query(t, b.admin, "select (select outbox = "+base+" from posthaste.pause)::text || "+
		"(select outbox = "+base+" from posthaste.topic_look)"); got != "truetrue" {
		t.Errorf("pause and look of the row without a group: %s", got)
	}
}

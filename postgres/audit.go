package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// AuditEntry is one act of an operator, or what a relay did on one's word.
type AuditEntry struct {
	ID     int64
	At     time.Time
	Actor  string
	Act    string
	Target []byte // JSON: of what; of a discarded event all of it
	Events *int64 // how many, nil where an act is not about a number of them
	Reason string
}

// AuditActs are the acts that are written down. Two are a relay's, of one event: discarded, and discard refused where
// it has no right to delete.
func AuditActs() []string {
	return []string{"retry", "discard", "discarded", "discard refused", "pause", "resume", "release"}
}

// AuditList asks for acts in the order in which they were written. An empty field asks for nothing.
type AuditList struct {
	Act   string
	Actor string // these words are part of the actor
	Since time.Time
	Until time.Time
	Page
}

// The walk is along the primary key; other outboxes of the same side schema are passed over.
const auditListSQL = `
select a.id, a.at, a.actor, a.act, a.target::text, a.events, coalesce(a.reason, '')
from {{schema}}.audit a where a.outbox = {{arg}} and a.id > {{arg}} and a.id < {{arg}}`

// auditAtOnce bounds the discarded events in memory.
const auditAtOnce = 200

// Audit reads acts and hands them to emit, when no statement is open. It tells whether there are more than the limit.
func (op *Operator) Audit(ctx context.Context, q AuditList, emit func(AuditEntry) error) (more bool, err error) {
	return turnPages(q.Page, auditAtOnce, emit, func(a AuditEntry) int64 { return a.ID },
		func(p Page) ([]AuditEntry, error) { return op.auditPage(ctx, &q, p) })
}

func (op *Operator) auditPage(ctx context.Context, q *AuditList, p Page) (page []AuditEntry, err error) {
	s := &statement{}
	s.add(auditListSQL, op.outbox.Names.Table.String(), p.above(), p.below())
	if q.Act != "" {
		s.add(" and a.act = {{arg}}", q.Act)
	}
	if q.Actor != "" {
		s.add(" and strpos(a.actor, {{arg}}) > 0", q.Actor)
	}
	if !q.Since.IsZero() {
		s.add(" and a.at >= {{arg}}", q.Since)
	}
	if !q.Until.IsZero() {
		s.add(" and a.at < {{arg}}", q.Until)
	}
	s.add(" order by a.id"+p.direction()+" limit {{arg}}", p.Limit)
	err = op.looking(ctx, "list audited acts", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, op.sql(s.String()), s.args...)
		if err != nil {
			return err
		}
		page, err = pgx.CollectRows(rows, pgx.RowToStructByPos[AuditEntry])
		return err
	})
	return page, err
}

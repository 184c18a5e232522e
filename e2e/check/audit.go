package check

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Auditor looks, while relays run, whether what is marked as published is in Kafka. Not for concurrent use.
type Auditor struct {
	db     Querier
	table  string
	client *kgo.Client
	topics []string
	marked map[string]bool // in earlier audits
}

// NewAuditor returns an auditor that has seen nothing yet. The client is the caller's to close.
func NewAuditor(db Querier, table string, client *kgo.Client, topics []string) *Auditor {
	return &Auditor{db: db, table: table, client: client, topics: topics, marked: map[string]bool{}}
}

// Audit takes one look at the events that their writers committed before the call. An event that is no longer among
// the unpublished ones was settled, by a mark or by deletion. The partitions' ends are read after the table: what is
// marked now must stand below them.
func (a *Auditor) Audit(ctx context.Context, committed []string) (Audit, error) {
	open, err := Unpublished(ctx, a.db, a.table)
	if err != nil {
		return Audit{}, fmt.Errorf("audit: %w", err)
	}
	ends, err := ends(ctx, a.client, a.topics)
	if err != nil {
		return Audit{}, fmt.Errorf("audit: %w", err)
	}
	audit := Audit{Ends: ends}
	for _, id := range committed {
		if !open[id] && !a.marked[id] {
			a.marked[id] = true
			audit.Marked = append(audit.Marked, id)
		}
	}
	return audit, nil
}

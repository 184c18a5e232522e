package load

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste"
	"posthaste.dev/posthaste/e2e/check"
)

// Library writes events by Posthaste's own writer in strict mode, which keeps the transactions of a key apart without a
// row lock. The events go to these topics.
func Library(table string, headers bool, topics []string) (Insert, error) {
	var types []posthaste.EventType
	for _, topic := range topics {
		_, name, _ := strings.Cut(topic, ".")
		types = append(types, posthaste.EventType{Aggregate: "Order", Name: name, Version: 1, Topic: topic})
	}
	registry, err := posthaste.NewRegistry(types...)
	if err != nil {
		return nil, err
	}
	writer, err := posthaste.NewWriter(posthaste.Config{Types: registry, Table: table, Headers: headers, Strict: true})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx pgx.Tx, table string, events []check.Event) error {
		written := make([]posthaste.Event, len(events))
		for i, e := range events {
			written[i] = posthaste.Event{
				Type: e.Type, AggregateID: e.AggregateID, Key: e.Key, ID: uuid.MustParse(e.EventID),
				Payload: json.RawMessage(e.Value), Headers: e.Headers,
			}
		}
		if err := writer.Write(ctx, tx, written...); err != nil {
			return err
		}
		for i := range events {
			e := &events[i]
			row := tx.QueryRow(ctx, `
				select id, payload::text, created_at from `+table+` where event_id = $1`, e.EventID)
			err := row.Scan(&e.ID, &e.Value, &e.CreatedAt)
			if err != nil {
				return fmt.Errorf("read event again: %w", err)
			}
		}
		return nil
	}, nil
}

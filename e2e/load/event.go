package load

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/e2e/check"
)

// event makes up an event. Its payload holds what goes wrong where JSON is decoded and printed again: integers beyond
// 2^53, trailing zeros, escapes; its size varies.
func (w worker) event(key string) check.Event {
	topic := w.Topics[w.rng.IntN(len(w.Topics))]
	_, name, _ := strings.Cut(topic, ".")
	pad := strings.Repeat("x", w.rng.IntN(400))
	e := check.Event{
		EventID:       uuid.Must(uuid.NewV7()).String(),
		AggregateType: "Order",
		AggregateID:   key,
		Type:          name + ".v1",
		Topic:         topic,
		Key:           key,
		Value: fmt.Sprintf(`{"id":%d,"amt":1.10,"big":327267367867168100000,"u":"\u2028 é","s":"\/","pad":%q}`,
			9007199254740993+w.rng.Int64N(1000), pad),
	}
	if w.Headers && w.rng.IntN(2) == 0 {
		e.Headers = map[string]string{
			"traceparent": fmt.Sprintf("00-%032x-%016x-01", w.rng.Uint64(), w.rng.Uint64()),
			"tenant":      `a"b`,
			"empty":       "",
		}
	}
	return e
}

// insertSQL writes events as a service in any language does, one plain insert each.
func (w worker) insertSQL(ctx context.Context, tx pgx.Tx, table string, events []check.Event) error {
	for i := range events {
		e := &events[i]
		args := []any{e.EventID, e.AggregateType, e.AggregateID, e.Type, e.Value, e.Topic, e.Key}
		column, parameter := "", ""
		if e.Headers != nil {
			headers, err := json.Marshal(e.Headers)
			if err != nil {
				return err
			}
			column, parameter, args = ", headers", ", $8", append(args, headers)
		}
		err := tx.QueryRow(ctx, `
			insert into `+table+`
				(event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key`+column+`)
			values ($1, $2, $3, $4, $5, $6, $7`+parameter+`)
			returning id, payload::text, created_at`, args...).Scan(&e.ID, &e.Value, &e.CreatedAt)
		if err != nil {
			return fmt.Errorf("insert event: %w", err)
		}
	}
	return nil
}

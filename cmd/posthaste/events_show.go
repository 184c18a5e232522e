package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
)

func newEventsShow() *cobra.Command {
	var asJSON, pretty, payload bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one event whole",
		Long: `Show one event whole, by its outbox id or its event id: columns, state, headers and payload.

The payload is shown as PostgreSQL prints it, byte for byte the value of the Kafka record; --payload prints that
alone, without a line end when it goes to a pipe or a file. A terminal gets signs that don't print as \u escapes.`,
		Example: `  posthaste events show 4711
  posthaste events show 0190f3a2-7c1e-7b54-9d0e-3f6a5b8c1d2e --pretty
  posthaste events show 4711 --payload > value.json`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := postgres.ParseEventRef(args[0])
			if err != nil {
				return usageError{err}
			}
			if asJSON && (payload || pretty) {
				return usageError{errors.New("--json shows the payload as it is: leave --payload and --pretty out")}
			}
			return withEvents(cmd, func(ctx context.Context, events *postgres.Events) error {
				found, err := events.Find(ctx, ref)
				if err != nil {
					return err
				}
				if len(found) == 0 {
					return hinted{fmt.Errorf("no event %s in the outbox", args[0]),
						"it was never committed, has been deleted since, or stands in another table (POSTHASTE_TABLE)"}
				}
				screen := term.On(cmd.OutOrStdout())
				for _, e := range found {
					switch {
					case asJSON:
						err = writeEventJSON(screen, e)
					case payload:
						err = writePayload(screen, e, pretty)
					default:
						err = showEvent(screen, e, pretty)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&payload, "payload", false, "print the payload alone")
	cmd.Flags().BoolVar(&pretty, "pretty", false, "indent the payload; its numbers and the order of its fields stay")
	return cmd
}

func showEvent(screen term.Screen, e postgres.StoredEvent, pretty bool) error {
	state := screen.Warn("unpublished")
	if !e.PublishedAt.IsZero() {
		state = screen.Good("published") + " " + e.PublishedAt.Format(time.RFC3339Nano)
	}
	headers := "none"
	if e.Headers != nil {
		headers = string(screen.JSON(e.Headers))
	}
	for _, field := range [][2]string{
		{"id", fmt.Sprint(e.ID)},
		{"event id", e.EventID.String()},
		{"state", state},
		{"created", orNone(e.CreatedAt, time.RFC3339Nano)},
		{"topic", term.Plain(e.Topic)},
		{"key", term.Plain(e.Key)},
		{"type", term.Plain(e.EventType)},
		{"aggregate", strings.TrimSpace(term.Plain(e.AggregateType) + " " + term.Plain(e.AggregateID))},
		{"headers", headers},
	} {
		if err := writeField(screen, field[0], field[1]); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(screen, screen.Bold("payload")); err != nil {
		return err
	}
	if err := writePayload(screen, e, pretty); err != nil || screen.Terminal {
		return err
	}
	_, err := fmt.Fprintln(screen)
	return err
}

// writePayload writes it as it is; a terminal gets a line end, so that the prompt begins a line, and no commands.
func writePayload(screen term.Screen, e postgres.StoredEvent, pretty bool) error {
	text := e.Payload
	if pretty {
		var b bytes.Buffer
		if err := json.Indent(&b, e.Payload, "", "  "); err != nil {
			return fmt.Errorf("indent payload: %w", err)
		}
		text = b.Bytes()
	}
	if screen.Terminal {
		text = append(bytes.Clone(screen.JSON(text)), '\n')
	}
	_, err := screen.Write(text)
	return err
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
)

func newEvents() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Look at the events in the outbox table",
		Long: `Look at the events in the outbox table, whether a relay has published them or not.

This needs select on the table and nothing else. Each statement ends after five seconds and reads along an index, so a
busy database hardly notices.

With --json each event is one line with one object: id, event_id, aggregate_type, aggregate_id, event_type,
topic, partition_key, created_at, published_at (null while unpublished), payload and headers. payload is a string:
the very bytes that are the record's value, since to decode numbers would alter the large ones. Fields may be
added; none will change.

` + settings.SecretHelp(settings.GroupDatabase),
		Example: `  posthaste events list --state unpublished
  posthaste events show 4711
  posthaste events tail --topic order-service.order.confirmed`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	settings.AddFlags(cmd.PersistentFlags(), settings.GroupDatabase)
	cmd.AddCommand(newEventsList(), newEventsShow(), newEventsTail())
	return cmd
}

// withEvents opens the table for a command.
func withEvents(cmd *cobra.Command, do func(context.Context, *postgres.Events) error) error {
	return withDatabase(cmd, func(ctx context.Context, conn *pgx.Conn, names postgres.Names) error {
		events, err := postgres.OpenEvents(ctx, conn, names)
		if err != nil {
			return err
		}
		return do(ctx, events)
	})
}

// eventFilter is the filter as it stands on the command line.
type eventFilter struct {
	state, eventID, topic, key, eventType, aggregateID, since, until string
}

// eventStates are the values of --state.
var eventStates = []string{string(postgres.EventsAll), string(postgres.EventsUnpublished),
	string(postgres.EventsPublished)}

// addTo defines the flags that list and tail share.
func (f *eventFilter) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.topic, "topic", "", "of this topic only")
	flags.StringVar(&f.key, "key", "", "with this partition key only")
	flags.StringVar(&f.eventType, "type", "", "of this event type only, such as order.confirmed.v1")
	flags.StringVar(&f.aggregateID, "aggregate-id", "", "of this aggregate only")
}

// parse reads what needs no database; of durations, all but what they are counted from.
func (f *eventFilter) parse() (filter postgres.EventFilter, times [2]moment, err error) {
	filter = postgres.EventFilter{State: postgres.EventState(f.state), Topic: f.topic, Key: f.key, Type: f.eventType,
		AggregateID: f.aggregateID}
	if f.state != "" && !slices.Contains(eventStates, f.state) {
		return filter, times, usageError{fmt.Errorf("--state %q: want all, unpublished or published", f.state)}
	}
	if f.eventID != "" {
		if filter.EventID, err = uuid.Parse(f.eventID); err != nil {
			return filter, times, usageError{fmt.Errorf("--event-id %q: want a UUID", f.eventID)}
		}
	}
	times, err = parseMoments(f.since, f.until)
	return filter, times, err
}

// moment is a time given as such, or as how long ago by the database clock.
type moment struct {
	text string // as it was given
	at   time.Time
	ago  time.Duration
}

func parseMoment(text string) (m moment, err error) {
	m.text = text
	if text == "" {
		return m, nil
	}
	if m.ago, err = time.ParseDuration(text); err == nil && m.ago > 0 {
		return m, nil
	}
	if m.at, err = time.Parse(time.RFC3339, text); err == nil {
		return m, nil
	}
	return m, fmt.Errorf("want how long ago, such as 90s, 15m or 48h, or a time such as 2026-01-02T15:04:05Z")
}

func (m moment) from(now time.Time) time.Time {
	if m.ago != 0 {
		return now.Add(-m.ago)
	}
	return m.at
}

// parseMoments reads --since and --until.
func parseMoments(since, until string) (times [2]moment, err error) {
	for i, flag := range []struct{ name, value string }{{"since", since}, {"until", until}} {
		if times[i], err = parseMoment(flag.value); err != nil {
			return times, usageError{fmt.Errorf("--%s %q: %w", flag.name, flag.value, err)}
		}
	}
	return times, nil
}

// between gives moments their times by the database clock.
func between(times [2]moment, now time.Time) (since, until time.Time, err error) {
	since, until = times[0].from(now), times[1].from(now)
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return since, until, usageError{fmt.Errorf("--since %s is not before --until %s: nothing lies between",
			times[0].text, times[1].text)}
	}
	return since, until, nil
}

// jsonEvent is the shape of an event with --json. Its names are promised: the help lists them.
type jsonEvent struct {
	ID            int64           `json:"id"`
	EventID       string          `json:"event_id"`
	AggregateType string          `json:"aggregate_type"`
	AggregateID   string          `json:"aggregate_id"`
	EventType     string          `json:"event_type"`
	Topic         string          `json:"topic"`
	Key           string          `json:"partition_key"`
	CreatedAt     *time.Time      `json:"created_at"`
	PublishedAt   *time.Time      `json:"published_at"`
	Payload       string          `json:"payload"`
	Headers       json.RawMessage `json:"headers"`
}

func writeEventJSON(screen term.Screen, e postgres.StoredEvent) error {
	return writeJSON(screen, eventJSON(e))
}

func eventJSON(e postgres.StoredEvent) jsonEvent {
	headers := json.RawMessage(e.Headers)
	if headers == nil {
		headers = json.RawMessage("null")
	}
	return jsonEvent{
		ID: e.ID, EventID: e.EventID.String(), AggregateType: e.AggregateType, AggregateID: e.AggregateID,
		EventType: e.EventType, Topic: e.Topic, Key: e.Key, CreatedAt: orNull(e.CreatedAt),
		PublishedAt: orNull(e.PublishedAt),
		Payload:     string(e.Payload), Headers: headers,
	}
}

// eventColumns head the columns of eventCells.
var eventColumns = []string{"ID", "CREATED", "STATE", "TOPIC", "KEY", "TYPE", "EVENT ID"}

func eventCells(e postgres.StoredEvent) []string {
	return []string{fmt.Sprint(e.ID), orNone(e.CreatedAt, time.RFC3339), eventState(e), e.Topic, e.Key, e.EventType,
		e.EventID.String()}
}

// orNone formats a time that the table may not have.
func orNone(t time.Time, layout string) string {
	if t.IsZero() {
		return "none"
	}
	return t.Format(layout)
}

func eventState(e postgres.StoredEvent) string {
	if e.PublishedAt.IsZero() {
		return string(postgres.EventsUnpublished)
	}
	return string(postgres.EventsPublished)
}

// words names the filters that no index serves.
func (f *eventFilter) words() string {
	var words []string
	for _, flag := range []struct{ name, value string }{{"topic", f.topic}, {"key", f.key}, {"type", f.eventType},
		{"aggregate-id", f.aggregateID}, {"since", f.since}, {"until", f.until}} {
		if flag.value != "" {
			words = append(words, "--"+flag.name)
		}
	}
	if f.state == string(postgres.EventsPublished) {
		words = append(words, "--state published")
	}
	return strings.Join(words, ", ")
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

func newParked() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "parked",
		Short: "See the events that Kafka refused, and let them out",
		Long: `See the events that Kafka refused, and let them out.

A relay parks an event that Kafka refuses for a reason of its own, such as one that is larger than its topic takes. It
stays unpublished in the outbox table, and by the policy of its topic its key waits behind it, its aggregate, or
nothing. It is not tried again until somebody says so: retry lets it go first of all that waits with it, discard
takes it out. Everything else flows meanwhile. docs/how-to-parked.md leads through it.

` + settings.SecretHelp(settings.GroupDatabase),
		Example: `  posthaste parked list
  posthaste parked show 4711
  posthaste parked retry 4711
  posthaste parked retry --topic order-service.order.confirmed --since 2h
  posthaste parked discard 4711 --reason 'a test order, see INC-123'`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	settings.AddFlags(cmd.PersistentFlags(), settings.GroupDatabase)
	cmd.AddCommand(newParkedList(), newParkedShow(), newParkedRetry(), newParkedDiscard())
	return cmd
}

// parkedFilter is the filter as it stands on the command line.
type parkedFilter struct {
	topic, key, class, scope, since, until string
	requested                              bool
}

func (f *parkedFilter) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.topic, "topic", "", "of this topic only, or of those that a pattern such as 'orders.*' picks")
	flags.StringVar(&f.key, "key", "", "with this partition key only")
	flags.StringVar(&f.class, "class", "", "with this class of failure only")
	flags.StringVar(&f.scope, "scope", "", "only where this waits: event (the event alone), key or aggregate")
	flags.StringVar(&f.since, "since", "", "parked since then: how long ago, such as 15m, or an RFC 3339 time")
	flags.StringVar(&f.until, "until", "", "parked before then: how long ago, such as 15m, or an RFC 3339 time")
	flags.BoolVar(&f.requested, "requested", false,
		"with a request that no relay has acted on yet; --requested=false: without one")
}

// parse reads what needs no database; of durations, all but what they are counted from.
func (f *parkedFilter) parse(cmd *cobra.Command) (filter postgres.ParkedFilter, times [2]moment, err error) {
	filter = postgres.ParkedFilter{Topic: relay.Pattern(f.topic), Key: given(cmd, "key", f.key), Class: f.class,
		Scope: f.scope}
	if cmd.Flags().Changed("requested") {
		filter.Requested = &f.requested
	}
	// An empty value may be a variable that was never set: it must not mean everything.
	for _, name := range []string{"topic", "class", "scope", "since", "until"} {
		if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
			return filter, times, usageError{fmt.Errorf("--%s is empty: leave it out to ask for nothing", name)}
		}
	}
	if f.topic != "" {
		if err := filter.Topic.Check(); err != nil {
			return filter, times, usageError{err}
		}
	}
	if f.scope != "" && !slices.Contains(postgres.ParkedScopes(), f.scope) {
		return filter, times, usageError{fmt.Errorf("--scope %q: want event, key or aggregate", f.scope)}
	}
	times, err = parseMoments(f.since, f.until)
	return filter, times, err
}

// parseRefs reads outbox ids and event ids.
func parseRefs(args []string) (refs []postgres.EventRef, err error) {
	for _, arg := range args {
		ref, err := postgres.ParseEventRef(arg)
		if err != nil {
			return nil, usageError{err}
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// refsText names events as they were given.
func refsText(refs []postgres.EventRef) string {
	var names []string
	for _, r := range refs {
		names = append(names, refText(r))
	}
	return strings.Join(names, ", ")
}

func refText(r postgres.EventRef) string {
	if r.ID != 0 {
		return fmt.Sprint(r.ID)
	}
	return r.EventID.String()
}

// jsonParked is the shape of a parked event with --json. Its names are promised: the help lists them.
type jsonParked struct {
	ID            int64        `json:"id"`
	EventID       string       `json:"event_id"`
	Topic         string       `json:"topic"`
	Key           string       `json:"partition_key"`
	AggregateType string       `json:"aggregate_type"`
	AggregateID   string       `json:"aggregate_id"`
	EventType     string       `json:"event_type"`
	Scope         string       `json:"scope"`
	Class         string       `json:"class"`
	Reason        string       `json:"reason"`
	Attempts      int          `json:"attempts"`
	FirstAt       time.Time    `json:"first_at"`
	ParkedAt      time.Time    `json:"parked_at"`
	Request       *jsonRequest `json:"request"`
}

type jsonRequest struct {
	Act    string    `json:"act"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

func parkedJSON(p postgres.Parked) jsonParked {
	j := jsonParked{ID: p.ID, EventID: p.EventID.String(), Topic: p.Topic, Key: p.Key, AggregateType: p.AggregateType,
		AggregateID: p.AggregateID, EventType: p.EventType, Scope: p.Scope, Class: p.Class, Reason: p.Reason,
		Attempts: p.Attempts, FirstAt: p.FirstAt, ParkedAt: p.ParkedAt}
	if p.Request != "" {
		j.Request = &jsonRequest{string(p.Request), p.RequestedBy, p.RequestedAt, p.RequestReason}
	}
	return j
}

// parkedColumns head the columns of parkedCells.
var parkedColumns = []string{"ID", "PARKED", "WAITS", "TOPIC", "KEY", "TRIES", "CLASS", "REQUEST", "REASON"}

func parkedCells(screen term.Screen, p postgres.Parked) []string {
	request := "none"
	if p.Request != "" {
		request = string(p.Request)
	}
	return []string{fmt.Sprint(p.ID), p.ParkedAt.Format(time.RFC3339), p.Scope, p.Topic, p.Key, fmt.Sprint(p.Attempts),
		p.Class, request, brief(screen, p.Reason)}
}

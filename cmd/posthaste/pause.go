package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// scopeFlags say what a pause is about.
type scopeFlags struct {
	topic, key string
	all        bool
}

func (s *scopeFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&s.topic, "topic", "", "this topic, by its exact name; with --key that key of it alone")
	flags.StringVar(&s.key, "key", "", "this partition key, of all topics without --topic")
	flags.BoolVar(&s.all, "all", false, "everything")
}

// scope returns what the flags mean, and whether they mean anything.
func (s *scopeFlags) scope(cmd *cobra.Command) (scope relay.Scope, given bool, err error) {
	topic, key := cmd.Flags().Changed("topic"), cmd.Flags().Changed("key")
	switch {
	case s.all && (topic || key):
		return scope, true, usageError{errors.New("--all means everything: leave it out, or --topic and --key")}
	case topic && key:
		scope = relay.Scope{Kind: relay.ScopeKey, Topic: s.topic, Key: s.key}
	case topic:
		scope = relay.Scope{Kind: relay.ScopeTopic, Topic: s.topic}
	case key:
		scope = relay.Scope{Kind: relay.ScopeKeyOfAll, Key: s.key}
	default:
		scope = relay.Scope{Kind: relay.ScopeAll}
	}
	if err := postgres.CheckPause(scope); err != nil {
		return scope, true, usageError{err}
	}
	return scope, topic || key || s.all, nil
}

func newPause() *cobra.Command {
	var a actFlags
	var s scopeFlags
	cmd := &cobra.Command{
		Use:   "pause --topic TOPIC | --key KEY | --all --reason WHY",
		Short: "Make a topic, a key or everything wait until it is resumed",
		Long: `Make a topic, a key, a key of one topic or everything wait until posthaste resume.

Relays obey within a second or two, which the command waits for; what is with Kafka by then still arrives. Events
that are written meanwhile wait in the outbox table, all else flows, and afterwards what waited goes out in order. A
pause stays when relays stop and start. An outbox can have up to 1,000.

What waits by another pause already is refused: it would go on waiting when one of the two ends.

With --json it prints one object: id (null with --dry-run), topic, partition_key (both null: everything), reason,
paused_by, paused_at, events and events_capped (unpublished ones that wait by it, of the first 100,000 looked at),
relays (that are alive), relays_behind (that have not been seen to obey).

` + settings.SecretHelp(settings.GroupDatabase),
		Example: `  posthaste pause --topic order-service.order.confirmed --reason 'partitions are being added'
  posthaste pause --topic order-service.order.confirmed --key o-77 --reason 'INC-123'
  posthaste pause --all --reason 'Kafka is upgraded' --dry-run`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			scope, given, err := s.scope(cmd)
			if err != nil {
				return err
			}
			if !given {
				return usageError{errors.New("say what to pause: --topic, --key, both, or --all")}
			}
			by, err := a.by("a pause")
			if err != nil {
				return err
			}
			return withOperator(cmd, func(ctx context.Context, op *postgres.Operator) error {
				return a.pause(ctx, cmd, op, scope, by)
			})
		},
	}
	settings.AddFlags(cmd.Flags(), settings.GroupDatabase)
	s.addTo(cmd.Flags())
	a.addTo(cmd.Flags())
	a.addWait(cmd.Flags(), "for relays to obey")
	return cmd
}

// jsonPause is the shape of a pause with --json. Its names are promised: the help lists them.
type jsonPause struct {
	ID       *int       `json:"id"`
	Topic    *string    `json:"topic"`
	Key      *string    `json:"partition_key"`
	Reason   string     `json:"reason"`
	PausedBy *string    `json:"paused_by"`
	PausedAt *time.Time `json:"paused_at"`
}

func pauseJSON(p postgres.Pause) jsonPause {
	j := jsonPause{ID: orNull(p.ID), Reason: p.Reason, PausedBy: orNull(p.By)}
	if p.Scope.Kind == relay.ScopeTopic || p.Scope.Kind == relay.ScopeKey {
		j.Topic = &p.Scope.Topic
	}
	if p.Scope.Kind == relay.ScopeKey || p.Scope.Kind == relay.ScopeKeyOfAll {
		j.Key = &p.Scope.Key
	}
	if !p.At.IsZero() {
		at := p.At.UTC()
		j.PausedAt = &at
	}
	return j
}

func pausesJSON(list []postgres.Pause) []jsonPause {
	out := []jsonPause{}
	for _, p := range list {
		out = append(out, pauseJSON(p))
	}
	return out
}

// pause does it first and says so: what is told beyond that may fail or take its time.
func (a *actFlags) pause(ctx context.Context, cmd *cobra.Command, op *postgres.Operator, scope relay.Scope,
	by postgres.By) (err error) {
	p := postgres.Pause{Pause: relay.Pause{Scope: scope, Reason: by.Reason}}
	var obeying jsonObeying
	if a.dryRun {
		err = op.PlanPause(ctx, scope)
	} else if p, err = op.Pause(ctx, scope, by); err == nil {
		a.say(cmd, "paused %s\nwhen it may go on: posthaste resume --id %d", postgres.ScopeText(scope), p.ID)
		obeying, err = a.awaitRelays(ctx, op)
	}
	if err != nil {
		return err
	}
	waits, uncounted := op.CountWaiting(ctx, scope)
	if a.json {
		out := jsonPaused{jsonPause: pauseJSON(p), Capped: waits.Capped, jsonObeying: obeying}
		if uncounted == nil {
			out.Events = &waits.Events
		}
		return writeJSON(term.On(cmd.OutOrStdout()), out)
	}
	text := eventsText(waits) + " not published yet"
	if uncounted != nil {
		text = "events not counted: " + uncounted.Error()
	}
	if a.dryRun {
		a.say(cmd, "would pause %s: %s; nothing is done", postgres.ScopeText(scope), text)
		return nil
	}
	a.say(cmd, "%s\n%s", obeying.text(a.wait), text)
	return nil
}

// jsonPaused is what pause prints. Its names are promised: the help lists them.
type jsonPaused struct {
	jsonPause
	Events *int `json:"events"`
	Capped bool `json:"events_capped"`
	jsonObeying
}

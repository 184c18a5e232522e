package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

func newHoldsRelease() *cobra.Command {
	a := &asking{act: postgres.Retry}
	var topic, key string
	cmd := &cobra.Command{
		Use:   "release --topic TOPIC [--key KEY]",
		Short: "Have relays look again now at a topic, or retry what is parked of a key",
		Long: `Have relays look again now at a topic that they find missing or forbidden, or retry what is parked of
a key.

Relays look by themselves after pauses that grow to 30 s; this ends the pause. A topic that is still missing stays
held. With --key it is posthaste parked retry of that key's parked events in the topic, with the same question,
flags and output.

Without --key it needs no --yes: nothing is sent that would not be sent in half a minute. With --json it prints one
object: topic, dry_run, held (by a relay, before), released (null without a wait), reason (why it is held still).`,
		Example: `  posthaste holds release --topic order-service.order.confirmed
  posthaste holds release --topic order-service.order.confirmed --key o-77`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := postgres.CheckPause(relay.Scope{Kind: relay.ScopeTopic, Topic: topic}); err != nil {
				return usageError{fmt.Errorf("--topic: %w", err)}
			}
			if !cmd.Flags().Changed("key") {
				return releaseTopic(cmd, a, topic)
			}
			return a.start(cmd, func(context.Context, *postgres.Operator) (postgres.ParkedFilter, error) {
				return postgres.ParkedFilter{Topic: relay.Pattern(topic), Key: &key}, nil
			})
		},
	}
	cmd.Flags().StringVar(&topic, "topic", "", "the topic's exact name")
	cmd.Flags().StringVar(&key, "key", "", "the partition key")
	a.addTo(cmd.Flags())
	return cmd
}

type jsonRelease struct {
	Topic    string  `json:"topic"`
	DryRun   bool    `json:"dry_run"`
	Held     bool    `json:"held"`
	Released *bool   `json:"released"`
	Reason   *string `json:"reason"`
}

func releaseTopic(cmd *cobra.Command, a *asking, topic string) error {
	by, err := a.by("")
	if err != nil {
		return err
	}
	return withOperator(cmd, func(ctx context.Context, op *postgres.Operator) error {
		relays, err := op.Relays(ctx)
		if err != nil {
			return err
		}
		before, held := topicHold(relays, topic)
		result := jsonRelease{Topic: topic, DryRun: a.dryRun, Held: held}
		if held {
			a.say(cmd, "topic %s is held by %s: %s", topic, strings.Join(before.Members, ", "),
				term.Plain(before.Reason))
		} else {
			a.say(cmd, "no relay says that it holds topic %s", topic)
		}
		if a.dryRun {
			a.say(cmd, "would ask relays to look at it again now; nothing is done")
		} else if err := op.LookAgain(ctx, topic, by); err != nil {
			return err
		} else {
			a.say(cmd, "asked relays to look at it again now")
		}
		var still error
		if held && a.wait > 0 {
			if still, err = a.awaitLook(ctx, cmd, op, topic, &result); err != nil {
				return err
			}
		}
		if err := a.tellParked(ctx, cmd, op, topic); err != nil {
			return err
		}
		if a.json {
			if err := writeJSON(term.On(cmd.OutOrStdout()), result); err != nil {
				return err
			}
		}
		return still
	})
}

// topicHold returns what relays say of a topic that is missing or forbidden.
func topicHold(relays []postgres.Relays, topic string) (postgres.Hold, bool) {
	for _, h := range postgres.HeldByMembers(relays) {
		if h.Kind == postgres.HoldTopic && h.Scope.Topic == topic {
			return h, true
		}
	}
	return postgres.Hold{}, false
}

// awaitLook waits until the topic is held no more, or was looked at once more. A topic that is held still needs a
// person, as the returned status says.
//
// A relay's first beat after the request tells of looks before it, and has it read the request. So it takes a look that
// a later beat tells of to be one that was asked for.
func (a *asking) awaitLook(ctx context.Context, cmd *cobra.Command, op *postgres.Operator, topic string,
	result *jsonRelease) (still, err error) {
	began, deadline := time.Now(), time.After(a.wait)
	for tries, heard := 0, false; ; {
		since := time.Since(began)
		relays, err := op.Relays(ctx)
		if err != nil {
			return nil, err
		}
		now, held := topicHold(relays, topic)
		switch {
		case !held:
			a.say(cmd, "it is held no more")
			result.Released = &[]bool{true}[0]
			return nil, nil
		case heard && now.Tries != tries:
			a.say(cmd, "it was looked at and is held still: %s", term.Plain(now.Reason))
			result.Released, result.Reason = new(bool), &now.Reason
			return needsPerson{}, nil
		}
		tries, heard = now.Tries, heard || silent(relays, since) == 0
		select {
		case <-ctx.Done():
			return nil, hinted{errors.New("interrupted while waiting for relays"), "the request stands"}
		case <-deadline:
			a.say(cmd, "no relay has looked at it within %v; the request stands", a.wait)
			result.Released, result.Reason = new(bool), &now.Reason
			return needsPerson{}, nil
		case <-time.After(oneBeat / 4):
		}
	}
}

// tellParked reminds of what a look at the topic does not free.
func (a *asking) tellParked(ctx context.Context, cmd *cobra.Command, op *postgres.Operator, topic string) error {
	any := false
	q := postgres.ParkedList{ParkedFilter: postgres.ParkedFilter{Topic: relay.Pattern(topic)},
		Page: postgres.Page{Limit: 1}}
	_, err := op.Parked(ctx, q, func(postgres.Parked) error {
		any = true
		return nil
	})
	if any {
		a.say(cmd, "events of it that are parked stay so: posthaste parked retry --topic %s", topic)
	}
	return err
}

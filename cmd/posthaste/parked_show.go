package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
)

func newParkedShow() *cobra.Command {
	var asJSON, pretty bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one parked event whole: why, what waits behind it, and the event",
		Long: `Show one parked event whole, by its outbox id or its event id: why it is parked, what waits behind it,
what has been asked for, and the event itself from the outbox table.

What waits behind it is counted among the first 100,000 unpublished events with higher ids: + says that there may be
more.

With --json it is one object, that of parked list, with state (unpublished, published, or gone where the outbox
table has it no more), behind {events, capped} and event, null or an object as that of events list.`,
		Example: `  posthaste parked show 4711
  posthaste parked show 0190f3a2-7c1e-7b54-9d0e-3f6a5b8c1d2e --pretty`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			refs, err := parseRefs(args)
			if err != nil {
				return err
			}
			return withOperator(cmd, func(ctx context.Context, op *postgres.Operator) error {
				found, err := op.ShowParked(ctx, refs[0])
				if err != nil {
					return err
				}
				if len(found) == 0 {
					return hinted{fmt.Errorf("event %s is not parked", args[0]),
						"posthaste events show " + args[0] + " says whether it is published; posthaste audit, what " +
							"was done"}
				}
				screen := term.On(cmd.OutOrStdout())
				for _, d := range found {
					if asJSON {
						err = writeJSON(screen, detailJSON(d))
					} else {
						err = showParked(screen, d, pretty)
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
	cmd.Flags().BoolVar(&pretty, "pretty", false, "indent the payload; its numbers and the order of its fields stay")
	return cmd
}

type jsonDetail struct {
	jsonParked
	State  string      `json:"state"`
	Behind jsonWaiting `json:"behind"`
	Event  *jsonEvent  `json:"event"`
}

type jsonWaiting struct {
	Events int  `json:"events"`
	Capped bool `json:"capped"`
}

func detailJSON(d postgres.ParkedDetail) jsonDetail {
	j := jsonDetail{jsonParked: parkedJSON(d.Parked), State: detailState(d),
		Behind: jsonWaiting{d.Behind.Events, d.Behind.Capped}}
	if d.Event != nil {
		e := eventJSON(*d.Event)
		j.Event = &e
	}
	return j
}

func detailState(d postgres.ParkedDetail) string {
	if d.Event == nil {
		return "gone"
	}
	return eventState(*d.Event)
}

func showParked(screen term.Screen, d postgres.ParkedDetail, pretty bool) error {
	fields := [][2]string{
		{"parked", fmt.Sprintf("%s, the first time %s, %s", screen.Bad(d.ParkedAt.Format(time.RFC3339)),
			d.FirstAt.Format(time.RFC3339), plural(d.Attempts, "attempt"))},
		{"class", term.Plain(d.Class)},
		{"reason", term.Plain(d.Reason)},
		{"waits", behindText(d)},
		{"request", requestText(d.Parked)},
	}
	for _, field := range fields {
		if err := writeField(screen, field[0], field[1]); err != nil {
			return err
		}
	}
	if d.Event != nil {
		return showEvent(screen, *d.Event, pretty)
	}
	return writeField(screen, "event", fmt.Sprintf("%d %s is gone from the outbox table: retry or discard ends its "+
		"being parked all the same", d.ID, d.EventID))
}

func writeField(screen term.Screen, name, value string) error {
	_, err := fmt.Fprintf(screen, "%s %s\n", screen.Bold(fmt.Sprintf("%-9s", name)), value)
	return err
}

func behindText(d postgres.ParkedDetail) string {
	waits := map[string]string{"event": "nothing else", "key": "its key", "aggregate": "its aggregate"}[d.Scope]
	if d.Scope == "event" {
		return waits
	}
	return fmt.Sprintf("%s: %s with higher ids", waits, eventsText(d.Behind))
}

// eventsText is a number of unpublished events.
func eventsText(w postgres.Waiting) string {
	if w.Capped {
		return number(w.Events) + "+ events"
	}
	return fmt.Sprintf("%s %s", number(w.Events), choose(w.Events == 1, "event", "events"))
}

func requestText(p postgres.Parked) string {
	if p.Request == "" {
		return "none"
	}
	text := fmt.Sprintf("%s, by %s at %s", p.Request, term.Plain(p.RequestedBy), p.RequestedAt.Format(time.RFC3339))
	if p.RequestReason != "" {
		text += ": " + term.Plain(p.RequestReason)
	}
	return text + "; no relay has acted on it yet"
}

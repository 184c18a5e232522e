package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/postgres"
)

func newAudit() *cobra.Command {
	var (
		q            postgres.AuditList
		since, until string
		asJSON       bool
	)
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show what operators did: who, when, what, why",
		Long: `Show what operators did, the latest first: who, when, what, why.

  retry, discard    parked events were asked for
  discarded         a relay has discarded one event, on an operator's word; target is the whole event
  discard refused   the relay's role may not delete from the outbox table, so that one event stays parked
  pause, resume     a scope waits, or waits no more
  release           relays were asked to look at a topic again

Each act is written in the transaction that does it, by the commands of this program. The actor is what --actor said,
the user and host of the operating system, and the database user, as the server knows it.

A terminal gets a table, a pipe the same columns between tabs and no head: id, at, act, events (- where an act is not
about a number of them), actor, reason, target. With --json each is one line with one object: id, at, actor, act,
target, events, reason. Of an act with filters target has the first 1,000 ids. Fields may be added; none will change.

` + settings.SecretHelp(settings.GroupDatabase),
		Example: `  posthaste audit
  posthaste audit --act discarded --since 24h --json | jq .target.payload
  posthaste audit --actor alice --limit 100`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Act != "" && !slices.Contains(postgres.AuditActs(), q.Act) {
				return usageError{fmt.Errorf("--act %q: want one of %s", q.Act,
					strings.Join(postgres.AuditActs(), ", "))}
			}
			if err := checkPage(q.Page); err != nil {
				return err
			}
			times, err := parseMoments(since, until)
			if err != nil {
				return err
			}
			return withOperator(cmd, func(ctx context.Context, op *postgres.Operator) error {
				now, err := op.Now(ctx)
				if err != nil {
					return err
				}
				if q.Since, q.Until, err = between(times, now); err != nil {
					return err
				}
				return listAudit(ctx, cmd, op, q, asJSON)
			})
		},
	}
	settings.AddFlags(cmd.Flags(), settings.GroupDatabase)
	flags := cmd.Flags()
	flags.StringVar(&q.Act, "act", "", "of this kind only: "+strings.Join(postgres.AuditActs(), ", "))
	flags.StringVar(&q.Actor, "actor", "", "only where these words are part of the actor")
	flags.StringVar(&since, "since", "", "done since then: how long ago, such as 15m, or an RFC 3339 time")
	flags.StringVar(&until, "until", "", "done before then: how long ago, such as 15m, or an RFC 3339 time")
	pageFlags(flags, &q.Page, "acts")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object an act")
	return cmd
}

// jsonAudit is the shape of an act with --json. Its names are promised: the help lists them.
type jsonAudit struct {
	ID     int64           `json:"id"`
	At     time.Time       `json:"at"`
	Actor  string          `json:"actor"`
	Act    string          `json:"act"`
	Target json.RawMessage `json:"target"`
	Events *int64          `json:"events"`
	Reason *string         `json:"reason"`
}

func listAudit(ctx context.Context, cmd *cobra.Command, op *postgres.Operator, q postgres.AuditList,
	asJSON bool) error {
	var last int64
	list := newList(cmd, asJSON, "no acts", "ID", "AT", "ACT", "EVENTS", "ACTOR", "REASON", "TARGET")
	more, err := op.Audit(ctx, q, func(a postgres.AuditEntry) error {
		last = a.ID
		events := "-"
		if a.Events != nil {
			events = fmt.Sprint(*a.Events)
		}
		return list.add([]string{fmt.Sprint(a.ID), a.At.UTC().Format(time.RFC3339), a.Act, events, a.Actor, a.Reason,
			brief(list.screen, string(a.Target))}, func() any {
			return jsonAudit{a.ID, a.At.UTC(), a.Actor, a.Act, a.Target, a.Events, orNull(a.Reason)}
		})
	})
	if err := list.end(err); err != nil {
		return err
	}
	noteMore(cmd, more, q.Page, last)
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
)

const statusHelp = `Show what an outbox does: its backlog, its relays and lanes, open writers, and what needs a person.

It asks the database alone, changes nothing, is cheap on a table of any size, and needs no more than select on the
outbox table and the side tables. Relays in claim mode skip-locked, and those of others, are not seen.

  backlog   unpublished events, counted up to 100,000
  oldest    age of the smallest created_at among those counted, by the database clock; created_at is when the
            writer's transaction began, or what the writer put there, so it can lie in the future; when the
            event was committed is not known
  rate      events that Kafka acknowledged between the latest two beats of each relay, about a second
  lanes     shards of the keys; one without an owner is taken at the next beat of a relay
  relay     alive; stale: silent for over 5 s, the default of POSTHASTE_RELAY_LEASE; gone: its connection has
            ended. posthaste holds list names the topics and keys that wait in it
  parked    events that Kafka refused and that wait for a person, counted up to 100,000
  paused    how many pauses of posthaste pause there are
  writer    a transaction that holds a writer's lock on the table: what it writes is still to come, and order
            strict waits for it; where its age is hidden, pg_read_all_stats shows it

With --json each look is one line with one object:
  time, database, server, standby, outbox
  backlog {count, capped, estimate, estimate_source, lowest_id, oldest_created_at, oldest_age_seconds}
  backlog_unknown, published_per_second
  groups [{name, topics, lanes_total, lanes_free, lanes_changing_to, relays_alive}], all other topics first
  relays [{group, id, name, version, state, lanes, joined_at, beat_age_seconds, published,
           published_per_second, held, trouble}]
  parked {count, capped, requested}
  pauses {count, oldest [{id, topic, partition_key, reason, paused_by, paused_at}]}
  writers {open, oldest [{pid, prepared, user, application, state, age_seconds}]}
  problems [{cause, fix}], warnings [{cause, fix}], attention [text]
or, while a watch has no answer: time, error. What is not known is null. Fields may be added; none will change.

Exit status: 0 nothing needs a person; 3 something does, and attention says what: a relay would refuse the
outbox, events have waited for over 10 s and no relay is alive, a relay is not ready, topics or keys are held,
events are parked, something is paused, or a limit that was given is passed; 1 the database can't be asked; 2 wrong
flag or setting. A watch ends with 0.

`

// statusOptions are the flags of status.
type statusOptions struct {
	limits
	json, watch bool
	interval    time.Duration
}

func newStatus() *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show backlog, relays and lanes, and what needs a person",
		Long:  statusHelp + settings.SecretHelp(settings.GroupDatabase),
		Example: `  posthaste status
  posthaste status --watch --interval 5s
  posthaste status --max-backlog 10000 --max-age 1m || page-somebody
  posthaste status --json | jq .backlog.count`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.interval < 100*time.Millisecond {
				return usageError{fmt.Errorf("--interval %v: want at least 100ms", o.interval)}
			}
			if o.maxBacklog < -1 || o.maxBacklog >= postgres.MaxCounted {
				return usageError{fmt.Errorf("--max-backlog %d: want 0 to %d, up to which is counted", o.maxBacklog,
					postgres.MaxCounted-1)}
			}
			if o.maxAge < 0 {
				return usageError{fmt.Errorf("--max-age %v: want a duration above 0, or 0 for any age", o.maxAge)}
			}
			cfg, err := loadSettings(cmd, settings.GroupDatabase)
			if err != nil {
				return err
			}
			return runStatus(cmd.Context(), cfg.Database, term.On(cmd.OutOrStdout()), o)
		},
	}
	settings.AddFlags(cmd.Flags(), settings.GroupDatabase)
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object a look")
	cmd.Flags().BoolVar(&o.watch, "watch", false, "look again and again until Ctrl-C")
	cmd.Flags().DurationVar(&o.interval, "interval", 2*time.Second, "pause between two looks of --watch")
	cmd.Flags().IntVar(&o.maxBacklog, "max-backlog", -1,
		"more unpublished events than this need a person; -1: any number is fine")
	cmd.Flags().DurationVar(&o.maxAge, "max-age", 0,
		"an unpublished event older than this needs a person; 0: any age is fine")
	return cmd
}

// runStatus looks once, or until the context ends. A watch rides out a database that doesn't answer, once it has.
func runStatus(ctx context.Context, db settings.Database, screen term.Screen, o statusOptions) error {
	for first := true; ; first = false {
		s, err := lookAtOutbox(ctx, db)
		switch {
		case o.watch && ctx.Err() != nil:
			return nil
		case err != nil && (!o.watch || first):
			return err
		}
		text, attention, err := statusText(screen, s, err, o)
		if err != nil {
			return err
		}
		if o.watch && !o.json {
			err = screen.Redraw(text)
		} else {
			_, err = fmt.Fprint(screen, text)
		}
		switch {
		case err != nil:
			return fmt.Errorf("write status: %w", err)
		case !o.watch && len(attention) > 0:
			return needsPerson{}
		case !o.watch:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.interval):
		}
	}
}

// lookTimeout bounds one look, the connection included.
const lookTimeout = 15 * time.Second

// lookAtOutbox connects anew for each look: a watch holds no connection between two, and gets over a restart.
func lookAtOutbox(ctx context.Context, db settings.Database) (*postgres.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	conn, err := connect(ctx, db.Conn)
	if err != nil {
		return nil, err
	}
	defer disconnect(ctx, conn)
	s, err := postgres.Look(ctx, conn, db.Names)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("look at the outbox: no answer within %v", lookTimeout)
	}
	return s, err
}

// statusText is one look as it is printed, and what in it needs a person.
func statusText(screen term.Screen, s *postgres.Status, err error, o statusOptions) (string, []string, error) {
	var b strings.Builder
	now := time.Now().UTC()
	switch {
	case err != nil && o.json:
		line, _ := json.Marshal(map[string]any{"time": now, "error": err.Error()})
		return string(line) + "\n", nil, nil
	case err != nil:
		fmt.Fprintf(&b, "%s  no answer: %v\n", now.Format(time.TimeOnly), err)
		return b.String(), nil, nil
	}
	attention := o.limits.attention(s)
	if o.json {
		line, err := json.Marshal(statusJSON(s, attention))
		if err != nil {
			return "", nil, fmt.Errorf("encode status: %w", err)
		}
		return string(line) + "\n", attention, nil
	}
	p := statusPrinter{screen, &b}
	p.print(s, attention)
	if o.watch && !screen.Moves {
		b.WriteString("\n")
	}
	return b.String(), attention, nil
}

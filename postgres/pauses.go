package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/relay"
)

// MaxPauses is how many pauses an outbox can have: relays read all of them with every beat.
const MaxPauses = 1_000

// Pause is an operator's word that a scope waits: all events, a topic's, a key's, or those of a key in one topic.
type Pause struct {
	relay.Pause
	By string
	At time.Time
}

// CheckPause refuses what no pause can be about. Topics are named exactly: a pattern would take in topics that nobody
// thought of.
func CheckPause(s relay.Scope) error {
	switch s.Kind {
	case relay.ScopeAll:
		return nil
	case relay.ScopeTopic:
		return checkTopic(s.Topic)
	case relay.ScopeKey, relay.ScopeKeyOfAll:
		if s.Key == "" {
			return errors.New("the key is empty")
		}
		if s.Kind == relay.ScopeKey {
			return checkTopic(s.Topic)
		}
		return nil
	}
	return errors.New("want a topic, a key, both, or everything")
}

func checkTopic(topic string) error {
	if relay.Pattern(topic).Check() != nil || strings.Contains(topic, "*") {
		return fmt.Errorf("topic %q: want the exact name of one topic", topic)
	}
	return nil
}

const listPausesSQL = `
select p.id, p.topic, p.key, p.reason, p.paused_by, p.paused_at
from {{schema}}.pause p where p.outbox = $1 order by p.id limit $2`

// Pauses lists the pauses, the oldest first.
func (op *Operator) Pauses(ctx context.Context) (list []Pause, err error) {
	err = op.looking(ctx, "list pauses", func(tx pgx.Tx) error {
		list, err = readPauses(ctx, tx, op.outbox)
		return err
	})
	return list, err
}

func readPauses(ctx context.Context, tx pgx.Tx, o *Outbox) ([]Pause, error) {
	rows, err := tx.Query(ctx, o.Names.sql(listPausesSQL), o.BaseID, MaxPauses+1)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Pause, err error) {
		var topic, key *string
		err = row.Scan(&p.ID, &topic, &key, &p.Reason, &p.By, &p.At)
		p.Scope = pauseScope(topic, key)
		return p, err
	})
}

// pauseScope makes a scope of a row's topic and key, null where the pause is wider; pauseColumns does the opposite.
func pauseScope(topic, key *string) relay.Scope {
	switch {
	case topic != nil && key != nil:
		return relay.Scope{Kind: relay.ScopeKey, Topic: *topic, Key: *key}
	case topic != nil:
		return relay.Scope{Kind: relay.ScopeTopic, Topic: *topic}
	case key != nil:
		return relay.Scope{Kind: relay.ScopeKeyOfAll, Key: *key}
	}
	return relay.Scope{Kind: relay.ScopeAll}
}

func pauseColumns(s relay.Scope) (topic, key *string) {
	if s.Kind == relay.ScopeTopic || s.Kind == relay.ScopeKey {
		topic = &s.Topic
	}
	if s.Kind == relay.ScopeKey || s.Kind == relay.ScopeKeyOfAll {
		key = &s.Key
	}
	return topic, key
}

// pauseTarget is what a pause is about, as the audit table has it.
type pauseTarget struct {
	Pause int     `json:"pause"`
	Topic *string `json:"topic,omitempty"`
	Key   *string `json:"key,omitempty"`
	All   bool    `json:"all,omitempty"`
}

func targetOf(p Pause) pauseTarget {
	topic, key := pauseColumns(p.Scope)
	return pauseTarget{p.ID, topic, key, p.Scope.Kind == relay.ScopeAll}
}

// ScopeText names what a pause is about.
func ScopeText(s relay.Scope) string {
	switch s.Kind {
	case relay.ScopeTopic:
		return fmt.Sprintf("topic %q", s.Topic)
	case relay.ScopeKey:
		return fmt.Sprintf("key %q of topic %q", s.Key, s.Topic)
	case relay.ScopeKeyOfAll:
		return fmt.Sprintf("key %q of all topics", s.Key)
	}
	return "everything"
}

// covers tells whether all that the other scope names waits by this one.
func covers(s, other relay.Scope) bool {
	switch s.Kind {
	case relay.ScopeAll:
		return true
	case relay.ScopeTopic:
		return (other.Kind == relay.ScopeTopic || other.Kind == relay.ScopeKey) && other.Topic == s.Topic
	case relay.ScopeKeyOfAll:
		return (other.Kind == relay.ScopeKeyOfAll || other.Kind == relay.ScopeKey) && other.Key == s.Key
	}
	return s == other
}

const (
	// pauseLockSQL lets one operator at a time change the pauses; relays read them meanwhile.
	pauseLockSQL = `lock table {{schema}}.pause in share row exclusive mode`

	insertPauseSQL = `
insert into {{schema}}.pause (outbox, topic, key, reason, paused_by) values ($1, $2, $3, $4, $5)
returning id, paused_at`

	deletePausesSQL = `delete from {{schema}}.pause where outbox = $1 and id = any($2)`
)

// Pause makes a scope wait, from the next beat of its relays on; what is with Kafka by then still arrives. It refuses
// with ErrPaused what waits by a pause already, and more than MaxPauses. A reason is needed.
func (op *Operator) Pause(ctx context.Context, scope relay.Scope, by By) (Pause, error) {
	p := Pause{Pause: relay.Pause{Scope: scope, Reason: by.Reason}, By: op.who(by)}
	if err := errors.Join(CheckPause(scope), by.check(true)); err != nil {
		return p, fmt.Errorf("pause: %w", err)
	}
	err := op.changePauses(ctx, "pause", func(tx pgx.Tx, all []Pause) error {
		if err := op.refusePause(scope, all); err != nil {
			return err
		}
		topic, key := pauseColumns(scope)
		err := tx.QueryRow(ctx, op.sql(insertPauseSQL), op.outbox.BaseID, topic, key, p.Reason, p.By).
			Scan(&p.ID, &p.At)
		if err != nil {
			return err
		}
		return op.record(ctx, tx, by, "pause", targetOf(p), nil)
	})
	return p, err
}

// PlanPause returns what Pause would refuse the scope for, or nil.
func (op *Operator) PlanPause(ctx context.Context, scope relay.Scope) error {
	if err := CheckPause(scope); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	all, err := op.Pauses(ctx)
	if err != nil {
		return err
	}
	return op.refusePause(scope, all)
}

func (op *Operator) refusePause(scope relay.Scope, all []Pause) error {
	for _, p := range all {
		if covers(p.Scope, scope) {
			cause := fmt.Sprintf("%s waits already: ", ScopeText(scope))
			if p.Scope == scope {
				cause = ""
			}
			return Problem{ErrPaused, fmt.Sprintf("%s%s was paused by %s at %s: %s", cause, ScopeText(p.Scope), p.By,
				p.At.UTC().Format(time.RFC3339), p.Reason), fmt.Sprintf("%s ends that pause",
				op.outbox.Names.command(fmt.Sprintf("resume --id %d", p.ID)))}
		}
	}
	if len(all) >= MaxPauses {
		return Problem{ErrPaused, fmt.Sprintf("there are %d pauses, as many as relays take", len(all)),
			"end some that are not needed any more, or pause whole topics"}
	}
	return nil
}

// PauseChoice says which pauses are meant: those of exactly these scopes, and those with these ids.
type PauseChoice struct {
	Scopes []relay.Scope
	IDs    []int
}

// Resume ends pauses. It refuses with ErrNotPaused, ending none, where one of those meant is not there.
func (op *Operator) Resume(ctx context.Context, c PauseChoice, by By) (ended []Pause, err error) {
	if err := by.check(false); err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	err = op.changePauses(ctx, "resume", func(tx pgx.Tx, all []Pause) error {
		if ended, err = op.pick(c, all); err != nil {
			return err
		}
		ids := make([]int, len(ended))
		for i, p := range ended {
			ids[i] = p.ID
		}
		if _, err := tx.Exec(ctx, op.sql(deletePausesSQL), op.outbox.BaseID, ids); err != nil {
			return err
		}
		for _, p := range ended {
			if err := op.record(ctx, tx, by, "resume", targetOf(p), nil); err != nil {
				return err
			}
		}
		return nil
	})
	return ended, err
}

// PlanResume returns the pauses that Resume would end.
func (op *Operator) PlanResume(ctx context.Context, c PauseChoice) ([]Pause, error) {
	all, err := op.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	return op.pick(c, all)
}

func (op *Operator) pick(c PauseChoice, all []Pause) (picked []Pause, err error) {
	find := func(what string, wanted relay.Scope, is func(Pause) bool) {
		found := false
		for _, p := range all {
			if is(p) {
				picked, found = append(picked, p), true
			}
		}
		if !found && err == nil {
			err = Problem{ErrNotPaused, what, op.wider(wanted, all)}
		}
	}
	for _, s := range c.Scopes {
		find("there is no pause of "+ScopeText(s), s, func(p Pause) bool { return p.Scope == s })
	}
	for _, id := range c.IDs {
		find(fmt.Sprintf("there is no pause %d", id), relay.Scope{Kind: relay.ScopeEvent},
			func(p Pause) bool { return p.ID == id })
	}
	return picked, err
}

// wider names a pause that makes the scope wait though it is about more.
func (op *Operator) wider(s relay.Scope, all []Pause) string {
	for _, p := range all {
		if s.Kind != relay.ScopeEvent && covers(p.Scope, s) {
			return fmt.Sprintf("it waits by the pause of %s: %s ends that", ScopeText(p.Scope),
				op.outbox.Names.command(fmt.Sprintf("resume --id %d", p.ID)))
		}
	}
	return op.outbox.Names.command("holds list") + " shows the pauses that there are"
}

// changePauses runs a change with nobody else changing the pauses.
func (op *Operator) changePauses(ctx context.Context, what string, change func(pgx.Tx, []Pause) error) error {
	return op.acting(ctx, what, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, op.sql(pauseLockSQL)); err != nil {
			return err
		}
		all, err := readPauses(ctx, tx, op.outbox)
		if err != nil {
			return err
		}
		return change(tx, all)
	})
}

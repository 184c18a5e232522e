package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// asked is how it went. Its JSON names are promised: the help lists them.
type asked struct {
	Act       postgres.ParkedAct `json:"act"`
	DryRun    bool               `json:"dry_run"`
	Asked     int                `json:"asked"`
	Replaced  int                `json:"replaced"`
	NotParked []string           `json:"not_parked"`
	More      bool               `json:"more"`
	Missing   []string           `json:"relays_missing"`
	Outcome   *jsonOutcome       `json:"outcome"`
}

type jsonOutcome struct {
	Pending  int `json:"pending"`
	Replaced int `json:"replaced"`
	Again    int `json:"parked_again"`
	Released int `json:"released"`
	Sent     int `json:"sent"`
	Gone     int `json:"gone"`
}

func (a *asking) ask(ctx context.Context, cmd *cobra.Command, op *postgres.Operator, filter postgres.ParkedFilter,
	by postgres.By) error {
	c, err := op.Choose(ctx, filter)
	if err != nil {
		return err
	}
	result := &asked{Act: a.act, DryRun: a.dryRun, Asked: len(c.Refs), Replaced: c.Requested, More: c.More,
		NotParked: []string{}, Missing: []string{}}
	for _, ref := range c.Missing {
		result.NotParked = append(result.NotParked, refText(ref))
	}
	if len(c.Refs) > 0 {
		if err := a.carryOut(ctx, cmd, op, c, by, result); err != nil {
			return err
		}
	} else if len(c.Missing) == 0 {
		a.say(cmd, "no parked event is meant; nothing to do")
	}
	if a.json {
		if err := writeJSON(term.On(cmd.OutOrStdout()), result); err != nil {
			return err
		}
	}
	switch {
	case len(c.Missing) > 0:
		return hinted{fmt.Errorf("not parked: %s", refsText(c.Missing)),
			"posthaste events show ID says whether an event is published; posthaste audit, what was done with it"}
	case result.Outcome != nil && result.Outcome.Again > 0:
		return needsPerson{}
	}
	return nil
}

// carryOut shows the events, asks the person and then the relays, and waits.
func (a *asking) carryOut(ctx context.Context, cmd *cobra.Command, op *postgres.Operator, c *postgres.Choice,
	by postgres.By, result *asked) error {
	relays, err := op.Relays(ctx)
	if err != nil {
		return err
	}
	result.Missing = withoutRelay(relays, c.Topics)
	if a.dryRun || !a.yes {
		if err := a.preview(ctx, cmd, op, c); err != nil {
			return err
		}
	}
	what := a.words(c)
	if a.dryRun {
		a.say(cmd, "would ask relays to %s; nothing is done", what)
		return nil
	}
	if err := a.confirm(cmd, what+"?"); err != nil {
		return err
	}
	r, err := op.Request(ctx, a.act, c, by)
	if err != nil {
		return err
	}
	result.Asked, result.Replaced = len(r.Refs), r.Replaced
	a.say(cmd, "asked relays to %s %s", a.act, plural(len(r.Refs), "parked event"))
	if r.Replaced > 0 {
		a.say(cmd, "%s of them had a request before, which this one replaces", number(r.Replaced))
	}
	for _, group := range result.Missing {
		g := postgres.Relays{Group: group}
		a.say(cmd, "no relay%s is alive, so the request waits for one; run: posthaste relay%s", ofGroup(g),
			groupFlag(g))
	}
	if a.wait == 0 || len(r.Refs) == 0 || aliveRelays(relays) == 0 {
		return nil
	}
	return a.follow(ctx, cmd, op, r, result)
}

// follow waits for what becomes of the events.
func (a *asking) follow(ctx context.Context, cmd *cobra.Command, op *postgres.Operator, r *postgres.Request,
	result *asked) error {
	waiting, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	o, err := op.Await(waiting, r)
	if err != nil {
		return err
	}
	result.Outcome = &jsonOutcome{o.Pending, o.Replaced, o.Again, o.Released, o.Sent, o.Gone}
	a.tell(cmd, o)
	if ctx.Err() != nil {
		return hinted{errors.New("interrupted while waiting for relays"), "the request stands"}
	}
	return nil
}

// previewed is how many events are shown before the question.
const previewed = 10

// preview shows the first of those that were chosen, and no others.
func (a *asking) preview(ctx context.Context, cmd *cobra.Command, op *postgres.Operator, c *postgres.Choice) error {
	if a.json {
		return nil
	}
	q := postgres.ParkedList{Page: postgres.Page{Limit: previewed, OldestFirst: true}}
	for _, ref := range c.Refs[:min(len(c.Refs), previewed)] {
		q.Events = append(q.Events, postgres.EventRef{ID: ref.ID})
	}
	list := newList(cmd, false, "", parkedColumns...)
	_, err := op.Parked(ctx, q, func(p postgres.Parked) error { return list.add(parkedCells(list.screen, p), nil) })
	if err := list.end(err); err != nil {
		return err
	}
	if n := len(c.Refs) - previewed; n > 0 {
		a.say(cmd, "and %s more", number(n))
	}
	return nil
}

// words says what is to be done.
func (a *asking) words(c *postgres.Choice) string {
	text := fmt.Sprintf("%s %s", a.act, plural(len(c.Refs), "parked event"))
	if len(c.Refs) > 1 {
		text += fmt.Sprintf(" of %s in %s", plural(c.Keys, "key"), plural(len(c.Topics), "topic"))
	}
	if c.More {
		text += ", the first of more"
	}
	if c.Requested > 0 {
		text += fmt.Sprintf(", in place of what was asked for %s of them", number(c.Requested))
	}
	if a.act == postgres.Discard {
		text += ", so that they are never published"
	}
	return text
}

// tell says what became of the events.
func (a *asking) tell(cmd *cobra.Command, o postgres.Outcome) {
	sent, again := "sent on", "parked again; posthaste parked list shows why"
	gone := "gone from the table: sent by a relay that deletes what it has sent, or deleted by somebody"
	if a.act == postgres.Discard {
		sent, gone, again = "published already", "discarded", "parked still; posthaste audit says why"
	}
	for _, state := range []struct {
		n    int
		text string
	}{
		{o.Sent, sent},
		{o.Gone, gone},
		{o.Again, again},
		{o.Released, "free, but not published yet; posthaste holds list shows what else may make it wait"},
		{o.Replaced, "asked for anew by somebody else"},
		{o.Pending, fmt.Sprintf("not looked at by a relay within %v; the request stands", a.wait)},
	} {
		if state.n > 0 {
			a.say(cmd, "%s %s", number(state.n), state.text)
		}
	}
}

// withoutRelay returns the groups that ship some of the topics and have no living relay.
func withoutRelay(groups []postgres.Relays, topics []string) []string {
	missing := []string{}
	for _, g := range groups {
		ships := func(topic string) bool { return groupOf(groups, topic) == g.Group }
		if g.Alive() == 0 && slices.ContainsFunc(topics, ships) {
			missing = append(missing, g.Group)
		}
	}
	return missing
}

// groupOf returns the group that ships a topic, "" for the relays of all topics that no group has.
func groupOf(groups []postgres.Relays, topic string) string {
	for _, g := range groups {
		if slices.ContainsFunc(g.Topics, func(p relay.Pattern) bool { return p.Match(topic) }) {
			return g.Group
		}
	}
	return ""
}

func aliveRelays(groups []postgres.Relays) (n int) {
	for _, g := range groups {
		n += g.Alive()
	}
	return n
}

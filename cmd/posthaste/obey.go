package main

import (
	"context"
	"fmt"
	"time"

	"posthaste.dev/posthaste/postgres"
)

// jsonObeying tells how many relays there are and how many of them have not been seen to take notice. Its names are
// promised: the help lists them.
type jsonObeying struct {
	Alive  int `json:"relays"`
	Behind int `json:"relays_behind"`
}

// oneBeat is how often relays read what operators want.
const oneBeat = time.Second

// awaitRelays waits until every living relay has beaten twice since now: by its second beat it has read, and worked by,
// what was committed before the first.
func (a *actFlags) awaitRelays(ctx context.Context, op *postgres.Operator) (o jsonObeying, err error) {
	for began := time.Now(); ; {
		since := time.Since(began)
		groups, err := op.Relays(ctx)
		if err != nil {
			return o, err
		}
		o = jsonObeying{aliveRelays(groups), silent(groups, since-oneBeat)}
		if o.Behind == 0 || since >= a.wait {
			return o, nil
		}
		select {
		case <-ctx.Done():
			return o, hinted{fmt.Errorf("interrupted while waiting for relays"), "what was asked for stands"}
		case <-time.After(oneBeat / 4):
		}
	}
}

// silent counts the living relays that have not beaten for so long.
func silent(groups []postgres.Relays, since time.Duration) (n int) {
	for _, g := range groups {
		for _, m := range g.Members {
			if m.State == postgres.MemberAlive && m.BeatAge > since {
				n++
			}
		}
	}
	return n
}

func (o jsonObeying) text(wait time.Duration) string {
	switch {
	case o.Alive == 0:
		return "no relay is alive; those that start obey"
	case o.Behind == 0:
		return atLeast(o.Alive, false, "relay obeys", "relays obey") + "; what was with Kafka before still arrives"
	case wait == 0:
		return atLeast(o.Alive, false, "relay is alive, and obeys", "relays are alive, and obey") +
			" within a second or two"
	}
	return fmt.Sprintf("%d of %s not been seen to obey within %v", o.Behind,
		atLeast(o.Alive, false, "relay has", "relays have"), wait)
}

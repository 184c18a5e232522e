package main

import (
	"fmt"
	"strings"
	"time"

	"posthaste.dev/posthaste/cmd/posthaste/internal/term"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// holdColumns head the columns of holdCells.
var holdColumns = []string{"WHY", "WAITS", "TOPIC", "KEY", "EVENTS", "PARKED", "SINCE", "WAY OUT", "REASON"}

func holdCells(screen term.Screen, h postgres.Hold) []string {
	topic, key := h.Scope.Topic, h.Scope.Key
	switch h.Scope.Kind {
	case relay.ScopePartition:
		topic = fmt.Sprintf("%s partition %d", topic, h.Scope.Partition)
	case relay.ScopeAggregate:
		key = h.Scope.AggregateType + " " + h.Scope.AggregateID
	}
	events := waitingText(h.Waiting)
	if h.Scope.Kind == relay.ScopeEvent {
		events = "0"
	}
	return []string{string(h.Kind), scopeWord(h.Scope.Kind), topic, key, events, fmt.Sprint(h.Parked),
		h.Since.UTC().Format(time.RFC3339), wayOut(h), brief(screen, h.Reason)}
}

// scopeWord names what waits; a key of all topics shows by having no topic.
func scopeWord(kind relay.ScopeKind) string {
	if kind == relay.ScopeKeyOfAll {
		kind = relay.ScopeKey
	}
	return kind.String()
}

// wayOut is what to run, or what is waited for.
func wayOut(h postgres.Hold) string {
	switch h.Kind {
	case postgres.HoldPause:
		return fmt.Sprintf("posthaste resume --id %d", h.Pause)
	case postgres.HoldTopic:
		return "posthaste holds release --topic " + shellWord(h.Scope.Topic)
	case postgres.HoldPartition:
		return "its brokers"
	}
	if h.Requested == h.Parked {
		return "a relay, as asked"
	}
	return fmt.Sprintf("posthaste parked show %d", h.FirstID)
}

// shellWord quotes a topic whose name no topic can have: whoever writes events must not write commands.
func shellWord(topic string) string {
	if relay.Pattern(topic).Check() == nil && !strings.Contains(topic, "*") {
		return topic
	}
	return "'" + strings.ReplaceAll(topic, "'", `'\''`) + "'"
}

// jsonHold is the shape of a hold with --json. Its names are promised: the help lists them.
type jsonHold struct {
	Hold          postgres.HoldKind `json:"hold"`
	Scope         string            `json:"scope"`
	Topic         *string           `json:"topic"`
	Partition     *int32            `json:"partition"`
	Key           *string           `json:"partition_key"`
	AggregateType *string           `json:"aggregate_type"`
	AggregateID   *string           `json:"aggregate_id"`
	Events        *int              `json:"events"`
	Capped        bool              `json:"events_capped"`
	Parked        *int              `json:"parked"`
	Requested     *int              `json:"requested"`
	FirstID       *int64            `json:"first_parked_id"`
	Since         time.Time         `json:"since"`
	Reason        string            `json:"reason"`
	WayOut        string            `json:"way_out"`
	Pause         *int              `json:"pause"`
	PausedBy      *string           `json:"paused_by"`
	Relays        []string          `json:"relays"`
	Tries         *int              `json:"tries"`
	NextTry       *time.Time        `json:"next_try"`
}

func holdJSON(h postgres.Hold) jsonHold {
	j := jsonHold{Hold: h.Kind, Scope: scopeWord(h.Scope.Kind), Topic: orNull(h.Scope.Topic), Since: h.Since.UTC(),
		Reason: h.Reason, WayOut: wayOut(h), Pause: orNull(h.Pause), PausedBy: orNull(h.By), Relays: h.Members,
		Tries: orNull(h.Tries)}
	switch h.Scope.Kind {
	case relay.ScopeKey, relay.ScopeKeyOfAll:
		j.Key = &h.Scope.Key
	case relay.ScopeAggregate:
		j.Key, j.AggregateType, j.AggregateID = &h.Scope.Key, &h.Scope.AggregateType, &h.Scope.AggregateID
	case relay.ScopePartition:
		j.Partition = &h.Scope.Partition
	}
	if h.Kind == postgres.HoldParked {
		j.Parked, j.Requested, j.FirstID = &h.Parked, &h.Requested, &h.FirstID
	}
	if h.Waiting != nil {
		j.Events, j.Capped = &h.Waiting.Events, h.Waiting.Capped
	}
	if !h.NextTry.IsZero() {
		at := h.NextTry.UTC()
		j.NextTry = &at
	}
	return j
}

package posthaste

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrDomainEvent is wrapped by the [TechnicalError] of an event that claims to be a domain event. Write it by a
// [Writer], in the transaction of the change that it tells of.
var ErrDomainEvent = errors.New("is a domain event's")

// ErrIllegalTopic is wrapped by the [TechnicalError] of a topic that Kafka would not have.
var ErrIllegalTopic = errors.New("is not a legal Kafka topic")

// TechnicalError holds every reason why a [TechnicalEvent] was refused. Nothing was sent, and sending it again fails
// again. errors.Is and errors.As look into all reasons.
type TechnicalError struct {
	Topic   string // as given
	Type    string // as given
	Reasons []error
}

func (e *TechnicalError) Error() string {
	text := "send technical event"
	if e.Type != "" {
		text += " " + printable(e.Type)
	}
	text += fmt.Sprintf(": refused, nothing was sent:%v", refusals[error](e.Reasons))
	if errors.Is(e, ErrDomainEvent) {
		text += "\n  domain events go through the outbox: write it by a Writer, in the transaction of its change"
	}
	return text
}

// Unwrap returns the reasons.
func (e *TechnicalError) Unwrap() []error { return e.Reasons }

// domain is what the domain events of a service look like, to know a technical event that claims to be one.
type domain struct {
	topics     map[string]string // a topic, or what the topics of an aggregate begin with: whose it is
	names      map[string]string // an event's name in words: the event type
	aggregates map[string]string // an aggregate's name in words: the name
}

func domainOf(types *Registry) domain {
	d := domain{topics: map[string]string{}, names: map[string]string{}, aggregates: map[string]string{}}
	for _, t := range types.Types() {
		if t.Service != "" {
			d.topics[t.Service+"."+kebab(t.Aggregate)] = "the aggregate " + t.Aggregate
		}
		d.names[spelled(t.Name)] = t.String()
		d.aggregates[spelled(t.Aggregate)] = t.Aggregate
	}
	for _, t := range types.Types() {
		d.topics[t.Topic] = t.String()
	}
	return d
}

// spelled brings the styles of one name together: order.confirmed, OrderConfirmed and order-confirmed.
func spelled(name string) string { return strings.Join(words(kebab(name)), " ") }

// ownerOf says whose a topic is, or nothing. What stands below a topic, such as its retries and dead letters, is its
// too.
func (d domain) ownerOf(topic string) string {
	for {
		if owner, ok := d.topics[topic]; ok {
			return owner
		}
		dot := strings.LastIndexByte(topic, '.')
		if dot < 0 {
			return ""
		}
		topic = topic[:dot]
	}
}

// namesake says which domain event a type is named like, or nothing. The version does not matter: the next version of a
// domain event is one too. Nor does the rest of a name that begins with an aggregate's.
func (d domain) namesake(eventType string) string {
	name := spelled(versionPattern.ReplaceAllString(eventType, ""))
	if t, ok := d.names[name]; ok {
		return "like " + t
	}
	for {
		if aggregate, ok := d.aggregates[name]; ok {
			return "after the aggregate " + aggregate
		}
		space := strings.LastIndexByte(name, ' ')
		if space < 0 {
			return ""
		}
		name = name[:space]
	}
}

// check returns the record's value, or everything that is wrong with the event.
func (t *Technical) check(e TechnicalEvent) (value []byte, reasons []error) {
	refuse := func(format string, args ...any) { reasons = append(reasons, fmt.Errorf(format, args...)) }
	if e.Topic == "" {
		refuse("topic %w", ErrEmpty)
	} else if illegalTopic(e.Topic) != "" {
		refuse("topic %s %w: want up to 249 letters, digits, . - _", printable(e.Topic), ErrIllegalTopic)
	} else if owner := t.domain.ownerOf(e.Topic); owner != "" {
		refuse("topic %s %w: it belongs to %s", e.Topic, ErrDomainEvent, owner)
	}
	if e.Type == "" {
		refuse("type %w", ErrEmpty)
	} else if like := t.domain.namesake(e.Type); like != "" {
		refuse("type %s %w: it is named %s", printable(e.Type), ErrDomainEvent, like)
	}
	if e.Key == "" {
		refuse("key %w: it chooses the partition", ErrEmpty)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		switch {
		case name == "":
			refuse("header name %w", ErrEmpty)
		case reservedHeader(name):
			refuse("header %s %w: the relay gives it to them", printable(name), ErrDomainEvent)
		case strings.EqualFold(name, HeaderTechnicalType):
			refuse("header %s is taken: it holds the type", printable(name))
		}
	}
	value, members, err := technicalValue(e.Payload)
	if err != nil {
		refuse("payload %w", err)
	} else if claim := t.domain.claim(members); claim != "" {
		refuse("payload %w: %s", ErrDomainEvent, claim)
	}
	return value, reasons
}

// claim says by which of its members a payload claims to be a domain event, or nothing. An id and a time of its own
// anything may have; an aggregate only a domain event has.
func (d domain) claim(members map[string]json.RawMessage) string {
	for _, name := range []string{memberNames[memberAggregateType], memberNames[memberAggregateID]} {
		if _, ok := members[name]; ok {
			return "it has a member " + name
		}
	}
	eventType, ok := members[memberNames[memberEventType]]
	if !ok {
		return ""
	}
	if like := d.namesake(text(eventType)); like != "" {
		return "its event_type is named " + like
	}
	return ""
}

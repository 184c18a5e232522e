package posthaste

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// EventType describes one kind of event. Declare it once, make a [Registry] of all of a service's types, and name it in
// [Event.Type] by its String.
//
// Names of services, aggregates and events are ASCII letters and digits in parts joined by single dots, dashes or
// underscores, and begin with a letter. An event's name is in the past tense, in either of two styles:
//
//	order.confirmed   gives the event type  order.confirmed.v1
//	OrderConfirmed    gives the event type  OrderConfirmed.v1
type EventType struct {
	// Service is the name of the service that owns the event, such as "order-service": the first part of the topic.
	// It may be empty where Topic is given.
	Service string

	// Aggregate is the aggregate type, such as "Order". It goes into aggregate_type as it is.
	Aggregate string

	// Name says what happened, without the version: "order.confirmed".
	Name string

	// Version counts from 1. Adding a field to the payload keeps it; removing or renaming one needs the next.
	Version int

	// Topic overrides the derived topic. Left empty, the topic is <service>.<aggregate>.<event>, with aggregate and
	// event in lower case, words joined by dashes, and the aggregate not said twice: "order-service.order.confirmed"
	// for both names above. The version is not part of it. A Registry returns its types with Topic filled in.
	Topic string

	// TopicPerAggregate derives the topic <service>.<aggregate> instead: all events of an aggregate in one topic, in
	// order of their keys, for consumers to tell apart by event type.
	TopicPerAggregate bool

	// AllowImperative admits a name that looks like a command, for a verb that is its own past tense or a noun that
	// happens to be on the list.
	AllowImperative bool
}

// String returns the event type as it stands in the column event_type, such as "order.confirmed.v1".
func (t EventType) String() string { return t.Name + ".v" + strconv.Itoa(t.Version) }

// Registry is the set of event types that a service writes, with their topics. It never changes once made.
type Registry struct {
	types map[string]EventType
}

// NewRegistry checks the types and derives their topics. All mistakes of all types come back in one error, made of
// [EventTypeError] values; a name that is a command wraps [ErrImperative].
func NewRegistry(types ...EventType) (*Registry, error) {
	var mistakes refusals[*EventTypeError]
	r := &Registry{types: make(map[string]EventType, len(types))}
	for _, t := range types {
		found := t.resolve()
		if _, ok := r.types[t.String()]; ok {
			found = append(found, t.mistake("Name", "is registered twice with this version"))
		}
		r.types[t.String()] = t
		mistakes = append(mistakes, found...)
	}
	if len(mistakes) > 0 {
		return nil, fmt.Errorf("register event types:%w", mistakes)
	}
	return r, nil
}

// Lookup finds a type by its String.
func (r *Registry) Lookup(eventType string) (EventType, bool) {
	t, ok := r.types[eventType]
	return t, ok
}

// Types returns all types, ordered by name.
func (r *Registry) Types() []EventType {
	names := slices.Sorted(maps.Keys(r.types))
	types := make([]EventType, len(names))
	for i, name := range names {
		types[i] = r.types[name]
	}
	return types
}

var (
	// Parts joined by single separators: what a topic can be built of without empty parts.
	namePattern    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*([._-][A-Za-z0-9]+)*$`)
	versionPattern = regexp.MustCompile(`[._-][vV][0-9]+$`)
	topicPattern   = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

// resolve fills in the topic and returns what is wrong with the type.
func (t *EventType) resolve() (mistakes []*EventTypeError) {
	add := func(field, format string, args ...any) {
		mistakes = append(mistakes, t.mistake(field, format, args...))
	}
	name := func(field, value string) bool {
		switch {
		case value == "":
			add(field, "is empty")
		case !namePattern.MatchString(value):
			add(field, "%q: want ASCII letters and digits, in parts joined by one of . - _", value)
		default:
			return true
		}
		return false
	}
	good := name("Aggregate", t.Aggregate)
	good = name("Name", t.Name) && good
	if versionPattern.MatchString(t.Name) {
		add("Name", "%q ends in a version: give that as Version", t.Name)
	}
	if t.Version < 1 {
		add("Version", "is %d: versions count from 1", t.Version)
	}
	if good && !t.AllowImperative {
		if verb := imperative(words(eventPart(t.Aggregate, t.Name))); verb != "" {
			add("Name", "%w: %q in %q: use the past tense, or set AllowImperative", ErrImperative, verb, t.Name)
		}
	}
	if t.Topic != "" {
		if t.TopicPerAggregate {
			add("Topic", "is given together with TopicPerAggregate: choose one")
		}
	} else if good = name("Service", t.Service) && good; good {
		t.Topic = t.Service + "." + kebab(t.Aggregate)
		if !t.TopicPerAggregate {
			t.Topic += "." + eventPart(t.Aggregate, t.Name)
		}
	}
	if reason := illegalTopic(t.Topic); t.Topic != "" && reason != "" {
		add("Topic", "%q %s", t.Topic, reason)
	}
	return mistakes
}

func (t *EventType) mistake(field, format string, args ...any) *EventTypeError {
	return &EventTypeError{EventType: t.String(), Field: field, Err: fmt.Errorf(format, args...)}
}

// illegalTopic says why Kafka would not have the topic (org.apache.kafka.common.internals.Topic).
func illegalTopic(topic string) string {
	switch {
	case len(topic) > 249:
		return fmt.Sprintf("has %d bytes, a Kafka topic at most 249", len(topic))
	case topic == "." || topic == "..":
		return "is not a legal Kafka topic"
	case !topicPattern.MatchString(topic):
		return "is not a legal Kafka topic: want letters, digits, . - _"
	}
	return ""
}

// eventPart is the event's name as it stands in a topic: without the aggregate in front, as that has its own place.
func eventPart(aggregate, name string) string {
	name = kebab(name)
	rest, ok := strings.CutPrefix(name, kebab(aggregate))
	if ok && len(rest) > 1 && isSeparator(rest[0]) {
		return rest[1:]
	}
	return name
}

// kebab turns CamelCase into lower-case words joined by dashes; separators stay as they are.
func kebab(name string) string {
	upper := func(i int) bool { return i < len(name) && name[i] >= 'A' && name[i] <= 'Z' }
	var b strings.Builder
	for i := range len(name) {
		// A word begins at a capital after something small, and at the last capital of an acronym: HTTPRequest.
		if i > 0 && upper(i) && !isSeparator(name[i-1]) &&
			(!upper(i-1) || i+1 < len(name) && !upper(i+1) && !isSeparator(name[i+1])) {
			b.WriteByte('-')
		}
		b.WriteByte(name[i])
	}
	return strings.ToLower(b.String())
}

func words(kebab string) []string {
	return strings.FieldsFunc(kebab, func(r rune) bool { return r < 128 && isSeparator(byte(r)) })
}

func isSeparator(c byte) bool { return c == '.' || c == '-' || c == '_' }

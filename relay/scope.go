package relay

// Scope names events that wait together, or are read together. It is comparable.
type Scope struct {
	Kind      ScopeKind
	Topic     string // of ScopeTopic, ScopeKey and ScopePartition
	Key       string // the partition key, of ScopeKey, ScopeKeyOfAll and ScopeAggregate
	ID        int64  // of ScopeEvent
	Partition int32  // of ScopePartition

	AggregateType, AggregateID string // of ScopeAggregate
}

// ScopeKind says how wide a Scope is.
type ScopeKind int

// The kinds of scopes.
const (
	ScopeAll       ScopeKind = iota // everything
	ScopeTopic                      // a topic
	ScopeKey                        // a partition key of a topic
	ScopeKeyOfAll                   // a partition key in all topics
	ScopeAggregate                  // an aggregate, in all topics, as far as its events have the same partition key
	ScopeEvent                      // one event
	ScopePartition                  // a partition of a topic
	scopeKinds
)

// String returns the kind as the side tables and people name it.
func (k ScopeKind) String() string {
	return [...]string{"all", "topic", "key", "key of all topics", "aggregate", "event", "partition"}[k]
}

// scopeOf returns the scope of a kind that the event belongs to. Partitions are known to the publisher alone.
func scopeOf(e *Event, kind ScopeKind, partition func(topic, key string) int32) Scope {
	s := Scope{Kind: kind}
	switch kind {
	case ScopeTopic:
		s.Topic = e.Topic
	case ScopeKey:
		s.Topic, s.Key = e.Topic, e.Key
	case ScopeKeyOfAll:
		s.Key = e.Key
	case ScopeAggregate:
		s.AggregateType, s.AggregateID, s.Key = e.AggregateType, e.AggregateID, e.Key
	case ScopeEvent:
		s.ID = e.ID
	case ScopePartition:
		s.Topic, s.Partition = e.Topic, partition(e.Topic, e.Key)
	}
	return s
}

// overlaps tells whether an event may belong to both.
func (s Scope) overlaps(other Scope) bool {
	topics := s.Topic == "" || other.Topic == "" || s.Topic == other.Topic
	return topics && (!s.hasKey() || !other.hasKey() || s.Key == other.Key)
}

func (s Scope) hasKey() bool {
	return s.Kind == ScopeKey || s.Kind == ScopeKeyOfAll || s.Kind == ScopeAggregate
}

// scopes are things by the scope that they are about.
type scopes[T any] struct {
	all       map[Scope]T
	kinds     [scopeKinds]int // how many there are of each
	partition func(topic, key string) int32
}

func newScopes[T any](partition func(topic, key string) int32) scopes[T] {
	return scopes[T]{all: make(map[Scope]T), partition: partition}
}

func (s *scopes[T]) len() int { return len(s.all) }

func (s *scopes[T]) put(scope Scope, v T) {
	if _, stands := s.all[scope]; !stands {
		s.kinds[scope.Kind]++
	}
	s.all[scope] = v
}

func (s *scopes[T]) remove(scope Scope) {
	if _, stands := s.all[scope]; stands {
		s.kinds[scope.Kind]--
		delete(s.all, scope)
	}
}

// covering returns what is about the event, the widest first. It costs nothing while there is nothing.
func (s *scopes[T]) covering(e *Event) (v T, ok bool) {
	if len(s.all) == 0 {
		return v, false
	}
	for kind, n := range s.kinds {
		if n > 0 {
			if v, ok = s.all[scopeOf(e, ScopeKind(kind), s.partition)]; ok {
				return v, true
			}
		}
	}
	return v, false
}

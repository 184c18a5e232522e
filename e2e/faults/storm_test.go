package faults_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"posthaste.dev/posthaste/relay"
)

// fault is an answer that a partition may give to a produce request in place of its own.
type fault struct {
	err   *kerr.Error
	stays int         // strikes up to so many requests of the partition in a row
	class relay.Class // what it means when it shows; most outages are ridden out inside Publish
}

// REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND are answered after the append, all others instead of it.
var faults = []*fault{
	{err: kerr.NotLeaderForPartition, stays: 3},
	{err: kerr.NotEnoughReplicas, stays: 3},
	{err: kerr.NotEnoughReplicasAfterAppend, stays: 2},
	{err: kerr.RequestTimedOut, stays: 2},
	{err: kerr.OutOfOrderSequenceNumber, stays: 1},
	{err: kerr.InvalidProducerEpoch, stays: 2},
	{err: kerr.UnknownTopicOrPartition, stays: 8, class: relay.TopicUnusable},
	{err: kerr.TopicAuthorizationFailed, stays: 2, class: relay.TopicUnusable},
	{err: kerr.MessageTooLarge, stays: 2, class: relay.Refused},
	{err: kerr.ClusterAuthorizationFailed, stays: 1},
	{err: kerr.UnknownServerError, stays: 1},
}

// How likely a request meets something, in a hundred.
const (
	faultChance = 12 // each partition of it
	cutChance   = 5  // each of: the connection ends before the append, after it
	moveChance  = 3  // a partition of it has another leader from now on
	initChance  = 40 // a client that asks for a producer id
)

// storm strikes the requests of a producer. Its seed decides which fault the n-th request of a partition meets, and
// what the n-th request of a broker does; how partitions come together in requests is left to chance.
type storm struct {
	cluster *cluster
	seed    uint64

	mu      sync.Mutex
	over    bool
	sources map[string]*source
	struck  map[string][]*fault // by topic, "" for all of them, since the last call of since
	tally   map[string]int
}

// source draws for one partition or broker.
type source struct {
	*rand.Rand
	fault *fault // not over yet
	left  int
}

func newStorm(c *cluster, seed uint64) *storm {
	s := &storm{cluster: c, seed: seed,
		sources: map[string]*source{}, struck: map[string][]*fault{}, tally: map[string]int{}}
	c.ControlKey(int16(kmsg.Produce), s.produce)
	c.ControlKey(int16(kmsg.InitProducerID), s.initProducerID)
	return s
}

// calm ends it.
func (s *storm) calm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// since returns what has struck each topic since the last call; "" stands for all topics.
func (s *storm) since() map[string][]*fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.struck = map[string][]*fault{} }()
	return s.struck
}

// String is the count of each fault.
func (s *storm) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.tally)) {
		all = append(all, fmt.Sprintf("%s %d", name, s.tally[name]))
	}
	return strings.Join(all, ", ")
}

func (s *storm) source(name string) *source {
	if s.sources[name] == nil {
		h := fnv.New64a()
		h.Write([]byte(name))
		s.sources[name] = &source{Rand: rand.New(rand.NewPCG(s.seed, h.Sum64()))}
	}
	return s.sources[name]
}

var errCut = errors.New("the connection is cut")

// produce runs for every produce request before the broker sees it.
func (s *storm) produce(request kmsg.Request) (kmsg.Response, error, bool) {
	s.cluster.KeepControl()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, nil, false
	}
	node := s.cluster.CurrentNode()
	of := s.source(fmt.Sprint("broker ", node))
	switch n := of.IntN(100); {
	case n < cutChance:
		s.tally["cut before append"]++
		return nil, errCut, true
	case n < 2*cutChance:
		s.tally["cut after append"]++
		s.cluster.cutter.next(node)
	}
	for _, t := range request.(*kmsg.ProduceRequest).Topics {
		name := t.Topic
		if name == "" {
			name = s.cluster.TopicIDInfo(t.TopicID).Topic
		}
		for _, p := range t.Partitions {
			s.strike(name, p.Partition, node)
		}
	}
	return nil, nil, false
}

// strike lets the request's partition meet its fault, if there is one.
func (s *storm) strike(topic string, partition, node int32) {
	of := s.source(fmt.Sprint(topic, " ", partition))
	switch n := of.IntN(100); {
	case of.left > 0:
	case n < faultChance:
		of.fault = faults[of.IntN(len(faults))]
		of.left = 1 + of.IntN(of.fault.stays)
	case n < faultChance+moveChance:
		s.tally["leader moved"]++
		_ = s.cluster.MoveTopicPartition(topic, partition, 1-node)
	}
	if of.left == 0 {
		return
	}
	of.left--
	s.tally[of.fault.err.Message]++
	s.struck[topic] = append(s.struck[topic], of.fault)
	s.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Nodes: []int32{node}, Topic: topic,
		Partitions: []int32{partition}, Err: of.fault.err})
}

// initFaults are answers to a client that asks for a producer id which it takes for final.
var initFaults = []*fault{
	{err: kerr.ClusterAuthorizationFailed},
	{err: kerr.UnknownServerError},
}

// initProducerID runs for every request for a producer id.
func (s *storm) initProducerID(request kmsg.Request) (kmsg.Response, error, bool) {
	s.cluster.KeepControl()
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.source("producer id")
	if s.over || of.IntN(100) >= initChance {
		return nil, nil, false
	}
	f := initFaults[of.IntN(len(initFaults))]
	s.tally["no producer id: "+f.err.Message]++
	s.struck[""] = append(s.struck[""], f)
	response := request.ResponseKind().(*kmsg.InitProducerIDResponse)
	response.ErrorCode = f.err.Code
	return response, nil, true
}

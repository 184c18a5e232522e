package kafka

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The silence of a broker that has told the client to wait, as brokers do beyond a quota, is not held against it.
func TestThrottledIsNotQuiet(t *testing.T) {
	t.Parallel()
	g := &gate{}
	q := newQuiet(g)
	q.heard = q.heard.Add(-time.Hour)
	if q.since(0) < time.Hour {
		t.Error("an hour of silence is not told")
	}
	g.OnBrokerThrottle(kgo.BrokerMetadata{}, time.Minute, true)
	g.OnBrokerThrottle(kgo.BrokerMetadata{}, time.Second, true) // another broker
	if since := q.since(0); since > 0 {
		t.Errorf("%v of silence are told while a broker wants a minute", since)
	}
	q = newQuiet(&gate{})
	q.heard = q.heard.Add(-time.Hour)
	if since := q.since(1); since > time.Minute {
		t.Errorf("%v of silence are told after an answer", since)
	}
}

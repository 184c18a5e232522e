package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"posthaste.dev/posthaste/relay"
)

// collector shows a relay's Stats to Prometheus. Its labels are topics and failure classes, never keys, ids or texts
// of errors.
type collector struct {
	relay *relay.Relay
}

func newCollector(r *relay.Relay) *collector { return &collector{r} }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("posthaste_relay_"+name, help, labels, nil)
}

var (
	descPublished = desc("published_events_total", "Events that Kafka acknowledged, by topic.", "topic")
	descErrors    = desc("errors_total",
		"Failures by class: outage and database pass, topic and refused make events wait.",
		"class")
	descReads      = desc("reads_total", "Reads of the outbox table, empty ones too.")
	descTakeOvers  = desc("lane_takeovers_total", "Lanes taken from relays that died or stalled.")
	descSweepFinds = desc("sweep_finds_total",
		"Events that only the sweep found: their marks were lost or taken back.")
	descOldest = desc("oldest_unpublished_age_seconds",
		"Age of the oldest unpublished event of this relay's lanes, by the database clock; 0 without any.")
	descLanes      = desc("lanes", "Lanes that this relay owns.")
	descLanesTotal = desc("lanes_configured", "Lanes of the outbox.")
	descRelays     = desc("members", "Relays of the outbox, this one among them.")
	descHeld       = desc("held", "Topics and keys that wait after a failure of their own.")
	descReady      = desc("ready", "1 while progress is possible.")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descPublished, descErrors, descReads, descTakeOvers, descSweepFinds,
		descOldest, descLanes,
		descLanesTotal, descRelays, descHeld, descReady} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.relay.Stats()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	for topic, n := range s.Published {
		send(descPublished, prometheus.CounterValue, float64(n), topic)
	}
	for _, class := range relay.ErrorClasses() { // all of them from the start, so that rates see the first failure
		send(descErrors, prometheus.CounterValue, float64(s.Errors[class]), class)
	}
	send(descReads, prometheus.CounterValue, float64(s.Reads))
	send(descTakeOvers, prometheus.CounterValue, float64(s.TakeOvers))
	send(descSweepFinds, prometheus.CounterValue, float64(s.SweepFinds))
	send(descOldest, prometheus.GaugeValue, s.Oldest.Seconds())
	send(descLanes, prometheus.GaugeValue, float64(s.Lanes))
	send(descLanesTotal, prometheus.GaugeValue, float64(s.LanesTotal))
	send(descRelays, prometheus.GaugeValue, float64(s.Relays))
	send(descHeld, prometheus.GaugeValue, float64(s.Held))
	ready := 0.0
	if s.Ready {
		ready = 1
	}
	send(descReady, prometheus.GaugeValue, ready)
}

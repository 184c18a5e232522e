package e2e_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"posthaste.dev/posthaste/kafka"
)

// The right to write one of two topics is withdrawn and given back under load, more than once. The events of that topic
// wait, as long as it takes and without an attempt spent; the others flow on; all arrive, once and in order.
func TestRightsWithdrawnUnderLoad(t *testing.T) {
	b := newBed(t, pg15, ownBroker, "order.confirmed", "order.cancelled")
	b.migrate()
	login := kafka.Config{
		Brokers: []string{ownKafka(t).broker.Listener(scramListener)},
		SASL:    kafka.SASLScramSHA256, Username: secureUser, Password: ownSecret,
	}
	relay := b.start(b.relay(kafkaEnv(login)...))
	stop := b.writeSteadily()
	forbidden, open := b.topics[0], b.topics[1]
	for range int(span(2, 5)) {
		b.await(20*time.Second, "events arrive", b.more(20))
		allowed := b.allow("somebody", kadm.OpWrite, forbidden)
		b.await(20*time.Second, "events of the forbidden topic wait", func() bool {
			return b.waitsFor(forbidden, "may not be written by this client")
		})
		none, reached := b.recordsOf(forbidden), b.recordsOf(open)
		b.await(10*time.Second, "events of the other topic arrive", func() bool {
			return b.recordsOf(open) > reached+40
		})
		b.letPass(span(0, time.Minute))
		if n := b.recordsOf(forbidden); n > none {
			t.Errorf("%d events came into the forbidden topic", n-none)
		}
		var parked int
		b.ok(b.db.QueryRow(b.ctx, "select count(*) from posthaste.parked").Scan(&parked))
		if parked > 0 {
			t.Errorf("%d events are parked for want of a right", parked)
		}
		allowed()
		back := time.Now()
		b.await(40*time.Second, "events of the topic arrive again", b.more(20))
		t.Logf("events arrived again %s after the right was given back", time.Since(back).Round(100*time.Millisecond))
	}
	stop()
	b.finish(relay)
}

// waitsFor tells whether a relay says that a topic waits, and why.
func (b *bed) waitsFor(topic, why string) (waits bool) {
	b.t.Helper()
	b.ok(b.db.QueryRow(b.ctx, `
		select exists (
			select from posthaste.member, jsonb_array_elements(waiting) w
			where w ->> 'topic' = $1 and w ->> 'reason' like '%' || $2 || '%')`, topic, why).Scan(&waits))
	return waits
}

// A quota throttles the relay to a fraction of what it could send. It sends as fast as it may, counts the broker's word
// to wait neither as an outage nor as partitions that do not answer, and is at full speed again when the quota is gone.
func TestThrottledByAQuota(t *testing.T) {
	b := newBed(t, pg15, ownBroker)
	b.migrate()
	// Batches are so small that a chunk is several requests, some of which wait for longer than a second while others
	// are acknowledged already: that must not be taken for a partition's silence.
	b.topics = []string{b.unique + ".order.confirmed"}
	b.createTopics(partitions, map[string]string{"max.message.bytes": "1000"}, b.topics...)
	relay := b.start(b.relay("POSTHASTE_KAFKA_CLIENT_ID="+b.unique, "POSTHASTE_RELAY_BATCH_MAX=100"))
	b.writeMore(100)
	b.drain(20 * time.Second)
	b.await(10*time.Second, "the relay has told that all is well", func() bool { return b.troubles() == "" })

	const quota = 3_000 // bytes a second; an event takes some 300
	b.setQuota(quota)
	t.Cleanup(func() { b.setQuota(0) })
	before := b.bytesOf(b.topics[0])
	b.writeMore(2_000)
	b.await(30*time.Second, "the quota is felt", func() bool { return b.bytesOf(b.topics[0]) > before+2*quota })
	began, before := time.Now(), b.bytesOf(b.topics[0])
	for over := began.Add(span(6*time.Second, time.Minute)); time.Now().Before(over); {
		if said := b.troubles(); said != "" {
			t.Fatalf("a throttled relay says %s", said)
		}
		b.letPass(100 * time.Millisecond)
	}
	took, sent := time.Since(began).Seconds(), b.bytesOf(b.topics[0])-before
	t.Logf("%.0f bytes a second by a quota of %d", sent/took, quota)
	const request = partitions * 1_000 // bytes at most; up to five are on their way
	if most := quota*took + 5*request; sent > most || sent < quota*took/4 {
		t.Errorf("%.0f bytes in %.0f s by a quota of %d", sent, took, quota)
	}
	b.setQuota(0)
	free := time.Now()
	b.drain(30 * time.Second)
	t.Logf("the rest was there %s after the quota had gone", time.Since(free).Round(100*time.Millisecond))
	b.finish(relay)
	for line := range strings.Lines(relay.LogTail(1000)) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			t.Errorf("a throttled relay says: %s", line)
		}
	}
}

// troubles are why the relays are not ready, and what they hold.
func (b *bed) troubles() (said string) {
	b.t.Helper()
	b.ok(b.db.QueryRow(b.ctx, `
		select coalesce(string_agg(concat(trouble, nullif(waiting, '[]')), '; '), '') from posthaste.member`).
		Scan(&said))
	return said
}

// setQuota bounds what a client of the bed's name may produce, in bytes a second; 0 ends that.
func (b *bed) setQuota(bytes float64) {
	b.t.Helper()
	altered, err := b.admin().AlterClientQuotas(context.WithoutCancel(b.ctx), []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &b.unique}},
		Ops:    []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: bytes, Remove: bytes == 0}},
	}})
	for _, a := range altered {
		err = errors.Join(err, a.Err)
	}
	b.ok(err)
}

// bytesOf tells how much a topic has on disk.
func (b *bed) bytesOf(topic string) (n float64) {
	b.t.Helper()
	var asked kadm.TopicsSet
	asked.Add(topic, 0, 1, 2, 3, 4, 5)
	dirs, err := b.admin().DescribeAllLogDirs(b.ctx, asked)
	b.ok(err)
	dirs.Each(func(dir kadm.DescribedLogDir) { n += float64(dir.Size()) })
	return n
}

package main

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// ledger knows every event of a place by its number, from 1 on: what is written can be computed, so what arrives can be
// checked without the table, which a relay may have emptied.
type ledger struct {
	keys   int // how many there are
	run    int // how many events of a key come together, as they do where a business process writes them
	topics []string
	next   int // the number that comes next
}

// take reserves n numbers and returns the first.
func (l *ledger) take(n int) int {
	first := l.next
	l.next += n
	return first
}

// eventSQL are an event's columns, computed by the server from number n, key and topic. About 300 bytes a payload.
const eventSQL = `md5(n::text)::uuid, 'Order', key, 'order.confirmed.v1',
    jsonb_build_object('order_id', key, 'n', n, 'total_amount', 1.10, 'pad', repeat('x', 225)), topic, key`

// keySQL and topicSQL are key and topic: of number n, by the number of keys $1, the run $2 and the topics $3. Runs lie
// at random, since keys that come at even distances hide faults: two chunks on their way never share one.
const (
	mixSQL   = `((n - 1) / $2 * 2654435761 % 4294967296 # ((n - 1) / $2 * 2654435761 % 4294967296 >> 15))`
	keySQL   = `'order-' || (` + mixSQL + ` * 1103515245 % 4294967296 >> 7) % $1`
	topicSQL = `($3::text[])[1 + (` + mixSQL + ` * 1103515245 % 4294967296 >> 7) % $1 % cardinality($3::text[])]`
)

// slot is the number of the key of an event, as keySQL has it.
func (l *ledger) slot(n int) int {
	const mask = 1<<32 - 1
	mixed := uint64((n-1)/l.run) * 2654435761 & mask
	mixed ^= mixed >> 15
	return int(mixed * 1103515245 & mask >> 7 % uint64(l.keys))
}

func (l *ledger) key(n int) string { return "order-" + strconv.Itoa(l.slot(n)) }

func (l *ledger) topic(n int) string { return l.topics[l.slot(n)%len(l.topics)] }

// value is the payload as PostgreSQL prints it.
func (l *ledger) value(n int) string {
	return fmt.Sprintf(`{"n": %d, "pad": "%s", "order_id": "%s", "total_amount": 1.10}`, n, padding, l.key(n))
}

var padding = strings.Repeat("x", 225)

// eventID is the event's id, as eventSQL has it.
func (l *ledger) eventID(n int) string {
	sum := md5.Sum([]byte(strconv.Itoa(n)))
	h := hex.EncodeToString(sum[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// numberOf reads an event's number from its payload; 0 for a stranger's.
func numberOf(value []byte) int {
	rest, ok := strings.CutPrefix(string(value[:min(len(value), 30)]), `{"n": `)
	digits, _, comma := strings.Cut(rest, ",")
	n, err := strconv.Atoi(digits)
	if !ok || !comma || err != nil {
		return 0
	}
	return n
}

// writers are the connections that share a load. Each key belongs to one, so the order of its events is defined.
const writers = 8

func writerOf(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32() % writers)
}

package e2e_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
	"posthaste.dev/posthaste/internal/testenv"
)

// placed is a key and where it has to land on a topic of so many partitions.
type placed struct {
	key        string
	partitions int32
	want       int32
}

// Keys that other clients are known to have put elsewhere than the Java client: their hashes have the top bit set, or
// their bytes are not ASCII.
var known = []placed{
	{"fd7af248-ce5c-46a5-93d7-1c0c9005b99d", 32, 26},
	{"354afe16-939a-4ea8-8e17-8bb0840b6886", 10, 4},
	{"f562ac3b-2224-4e25-a0ab-56094e10c239", 10, 5},
	{"TT0124", 15, 10},
	{"ключ-1", 12, 9},
	{"zürich", 7, 4},
}

// Every key lands on the partition that the Java client's default partitioner chooses, which its own code is asked.
func TestKeysLandWhereTheJavaClientPutsThem(t *testing.T) {
	t.Parallel()
	b := newBed(t, pg15, oneBroker)
	b.migrate()
	seed := seedOf(t)
	keys := append([]placed(nil), known...)
	for i, key := range randomKeys(seed, 2000) {
		keys = append(keys, placed{key: key, partitions: []int32{10, 7, 12, 32}[i%4]})
	}
	for i, want := range javaPartitions(t, keys) {
		if i < len(known) && want != known[i].want {
			t.Errorf("Java puts %q of %d on %d, want %d", keys[i].key, keys[i].partitions, want, known[i].want)
		}
		keys[i].want = want
	}

	topic := func(partitions int32) string { return fmt.Sprintf("%s.of-%d", b.unique, partitions) }
	for _, n := range []int32{7, 10, 12, 15, 32} {
		b.topics = append(b.topics, topic(n))
		b.createTopics(n, nil, topic(n))
	}
	var topics, texts []string
	for _, k := range keys {
		topics, texts = append(topics, topic(k.partitions)), append(texts, k.key)
	}
	b.exec(`
		insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
		select gen_random_uuid(), 'Order', '1', 'order.confirmed.v1', '{"n": 1}', topic, key
		from unnest($1::text[], $2::text[]) wanted (topic, key)`, topics, texts)
	relay := b.start(b.relay("POSTHASTE_RELAY_BATCH_MAX=2000"))
	b.drain(15 * time.Second)
	b.stop(relay)
	if err := b.judge(check.History{}).Err(); err != nil {
		t.Fatal(err)
	}
	landed := map[string]int32{}
	for _, r := range b.readTopics() {
		landed[r.Topic+" "+string(r.Key)] = r.Partition
	}
	for _, k := range keys {
		if got := landed[topic(k.partitions)+" "+k.key]; got != k.want {
			t.Errorf("key %q landed on partition %d of %d, want %d", k.key, got, k.partitions, k.want)
		}
	}
}

// randomKeys makes keys of many kinds: UUIDs, numbers, words of several scripts, very long ones, an empty one.
func randomKeys(seed uint64, n int) []string {
	rng := rand.New(rand.NewPCG(seed, 0))
	alphabets := [][]rune{
		[]rune("0123456789abcdef-"), []rune("abcdefghijklmnopqrstuvwxyzABCXYZ_./:"),
		[]rune("абвгдеёжзийклмнопрстуфхцчшщъыьэюя"),
		[]rune("äöüßéèçñøåœ"), []rune("注文確認済顧客東京"), []rune("🚚📦✉️👩‍💻"), []rune("\x01\x7f\t\n \"'\\%"),
	}
	keys := []string{""}
	for len(keys) < n {
		alphabet := alphabets[rng.IntN(len(alphabets))]
		length := 1 + rng.IntN(40)
		if rng.IntN(50) == 0 {
			length = 500 + rng.IntN(1500)
		}
		var key strings.Builder
		for range length {
			key.WriteRune(alphabet[rng.IntN(len(alphabet))])
		}
		keys = append(keys, key.String())
	}
	return keys
}

// javaPartitions asks the partitioner in Apache Kafka's own jar.
func javaPartitions(t *testing.T, keys []placed) []int32 {
	t.Helper()
	jars := testenv.Require(t, testenv.KafkaClasspath)
	var in strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&in, "%d %s\n", k.partitions, base64.StdEncoding.EncodeToString([]byte(k.key)))
	}
	cmd := exec.CommandContext(t.Context(), "java", "-cp", filepath.Join(jars, "*"), "testdata/java/Partitions.java")
	cmd.Stdin = strings.NewReader(in.String())
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ask the Java client (this needs a JDK of 17 or later): %v\n%s", err, complaints.String())
	}
	var partitions []int32
	for line := range strings.Lines(string(out)) {
		n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		partitions = append(partitions, int32(n))
	}
	if len(partitions) != len(keys) {
		t.Fatalf("Java answered for %d keys of %d", len(partitions), len(keys))
	}
	return partitions
}

package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/posthastetest"
)

// TestMain is the service itself in the processes that the tests start.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_HTTPSERVICE") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// service is the command as a process.
type service struct {
	t     *testing.T
	name  string
	url   string
	cmd   *exec.Cmd
	ended chan struct{}

	mu   sync.Mutex
	said []string // messages of the log
}

func start(t *testing.T, outbox *posthastetest.Outbox, brokers string) *service {
	t.Helper()
	s := &service{t: t, name: "order-service-" + strings.ToLower(rand.Text()), cmd: exec.Command(os.Args[0]),
		ended: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), "RUN_HTTPSERVICE=1", "DATABASE_URL="+outbox.URL, "KAFKA_BROKERS="+brokers,
		"HTTP_ADDR=127.0.0.1:0", "SERVICE="+s.name,
		"POSTHASTE_TABLE="+outbox.Table, "POSTHASTE_SCHEMA="+outbox.SideSchema)
	stderr, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	go func() {
		defer close(s.ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			var line struct{ Msg, Address string }
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Errorf("the log says %q", lines.Text())
			}
			t.Log(lines.Text())
			s.mu.Lock()
			s.said = append(s.said, line.Msg)
			s.mu.Unlock()
			if line.Address != "" {
				address <- line.Address
			}
		}
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
		_ = s.cmd.Wait()
	})
	select {
	case a := <-address:
		s.url = "http://" + a
	case <-s.ended:
		t.Fatal("the service ended at once")
	case <-time.After(time.Minute):
		t.Fatal("the service never listens")
	}
	return s
}

// order posts an order and returns the status; an error means that nobody took it.
func (s *service) order(id string) (int, error) {
	body := strings.NewReader(fmt.Sprintf(`{"id": %q, "total": "19.90"}`, id))
	answer, err := http.Post(s.url+"/orders", "application/json", body)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

// health returns what the health page says of a healthy service.
func (s *service) health() string {
	s.t.Helper()
	answer, err := http.Get(s.url + "/healthz")
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		s.t.Fatalf("health: %s %q, %v", answer.Status, text, err)
	}
	return string(text)
}

// stop sends SIGTERM; finish waits for the exit status 0.
func (s *service) stop() {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) finish() {
	s.t.Helper()
	<-s.ended
	if err := s.cmd.Wait(); err != nil {
		s.t.Fatalf("the service ends with %v", err)
	}
}

// Clients order until the service stops. Every order that it took is there afterwards, has its event, and Kafka has it.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	brokers := testenv.Require(t, testenv.KafkaBrokers)
	outbox := posthastetest.New(t)
	s := start(t, outbox, brokers)
	topic := s.name + ".order.placed"
	t.Cleanup(func() { deleteTopic(t, brokers, topic) })

	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.health(), "relay ready"); {
		if time.Now().After(deadline) {
			t.Fatal("the relay is never ready")
		}
	}
	var clients sync.WaitGroup
	var mu sync.Mutex
	var placed []string
	for client := range 4 {
		clients.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("o-%d-%d", client, n)
				status, err := s.order(id)
				if err != nil {
					return // nobody listens any more
				}
				if status != http.StatusCreated {
					t.Errorf("order %s: status %d", id, status)
				}
				mu.Lock()
				placed = append(placed, id)
				if len(placed) == 100 {
					s.stop()
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	s.finish()

	rows, err := outbox.Pool.Query(t.Context(),
		`select partition_key from `+outbox.Table+` where published_at is not null order by id`)
	if err != nil {
		t.Fatal(err)
	}
	published, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	var orders, events int
	err = outbox.Pool.QueryRow(t.Context(),
		`select (select count(*) from orders), (select count(*) from `+outbox.Table+`)`).
		Scan(&orders, &events)
	if err != nil {
		t.Fatal(err)
	}
	if orders < len(placed) || events != orders || len(published) != events {
		t.Errorf("%d orders confirmed to clients, %d in the database, %d events, %d published", len(placed), orders,
			events, len(published))
	}
	delivered := keys(t, brokers, topic, len(published))
	slices.Sort(published)
	slices.Sort(delivered)
	if !slices.Equal(published, delivered) {
		t.Errorf("published %v\ndelivered %v", published, delivered)
	}
	if stops, relayStops := slices.Index(s.said, "order service stops"),
		slices.Index(s.said, "relay stops, everything in flight is settled"); stops < 0 || relayStops < stops {
		t.Errorf("the order of the stop is not in the log: %q", s.said)
	}
}

// Orders are taken while Kafka is away, and the service says how it is.
func TestWithoutKafka(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.DatabaseURL)
	outbox := posthastetest.New(t)
	s := start(t, outbox, "127.0.0.1:1")
	for _, c := range []struct {
		id   string
		want int
	}{{"o-1", http.StatusCreated}, {"o-1", http.StatusConflict}, {"", http.StatusBadRequest}} {
		if status, err := s.order(c.id); err != nil || status != c.want {
			t.Errorf("order %q: status %d, %v; want %d", c.id, status, err, c.want)
		}
	}
	if text := s.health(); !strings.Contains(text, "relay not ready: Kafka") {
		t.Errorf("health: %q", text)
	}
	s.stop()
	s.finish()
	outbox.RequireWritten(t, outbox.Pool, posthastetest.Want{Type: "order.placed.v1", Key: "o-1"})
	if !slices.Contains(s.said, "events are left for another relay or the next start") {
		t.Errorf("the log does not tell of the event that is left: %q", s.said)
	}
}

// keys reads so many records of a topic from its start, and no more than are there.
func keys(t *testing.T, brokers, topic string, want int) (keys []string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	var there int64
	ends.Each(func(o kadm.ListedOffset) { there += o.Offset })
	if int(there) != want {
		t.Fatalf("topic %s has %d records, want %d", topic, there, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(keys) < want && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { keys = append(keys, string(r.Key)) })
	}
	return keys
}

func deleteTopic(t *testing.T, brokers, topic string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...))
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	_, _ = kadm.NewClient(client).DeleteTopics(context.Background(), topic)
}

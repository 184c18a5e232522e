//go:build unix

package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"posthaste.dev/posthaste/kafka"
	"posthaste.dev/posthaste/testbed/servers"
)

// postgresMajor is the version of the PostgreSQL that is brought along.
const postgresMajor = 18

// partitions is how many each topic gets: enough that a key which changed its partition would show.
const partitions = 6

// place is where a run happens.
type place struct {
	folder string // for logs, and for the data of PostgreSQL
	url    string // of PostgreSQL
	schema string // of the service's table
	table  string // the outbox
	side   string // schema of the relays' own tables
	cfg    kafka.Config
	broker *kfake.Cluster // nil: given
	tag    string         // what makes names in given servers our own
}

// DownloadError says that PostgreSQL's binaries could not be had from the network.
type DownloadError = servers.DownloadError

// makeFolder makes the demo's own, in which all temporary files of this process then are, so that one folder is to be
// removed.
func (d *demo) makeFolder() (err error) {
	if d.folder, err = os.MkdirTemp("", "posthaste-demo-"); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	// It is open to others since PostgreSQL runs as another user when we are root.
	err = errors.Join(d.cleaner.note(note{Folder: d.folder}), os.Chmod(d.folder, 0o755), os.Setenv("TMPDIR", d.folder))
	d.tag = strings.ToLower(rand.Text()[:8])
	return err
}

// bringPostgres starts one, or takes the given one.
func (d *demo) bringPostgres(ctx context.Context) error {
	if d.DatabaseURL != "" {
		d.schema = "posthaste_demo_" + d.tag
		d.url, d.table, d.side = d.DatabaseURL, d.schema+".outbox_event", d.schema
		d.progress.say("postgres", "the given one, schema %s", d.schema)
		return nil
	}
	d.schema, d.table, d.side = "public", "public.outbox_event", "posthaste"
	bringing := words(fmt.Sprintf("bringing up PostgreSQL %d", postgresMajor))
	return d.progress.step("postgres", bringing, func() (string, error) {
		server, err := servers.StartPostgres(ctx, servers.PostgresConfig{
			Major:    postgresMajor,
			Dir:      filepath.Join(d.folder, "postgres"),
			Settings: map[string]string{"shared_buffers": "64MB"},
			Download: func(version string) {
				d.progress.say("postgres", "downloading PostgreSQL %s, this once", version)
			},
		})
		if err != nil {
			return "", err
		}
		d.url = server.URL()
		return fmt.Sprintf("a real PostgreSQL %d on port %d", postgresMajor, server.Port()), nil
	})
}

// bringKafka starts one in this process, or takes the given one.
func (d *demo) bringKafka(context.Context) error {
	if len(d.Kafka.Brokers) > 0 {
		d.cfg = d.Kafka
		d.progress.say("kafka", "the given one, topics %s.*", d.serviceName())
		return nil
	}
	broker, err := kfake.NewCluster(kfake.NumBrokers(1)) // on 127.0.0.1, on a free port
	if err != nil {
		return fmt.Errorf("start Kafka in this process: %w", err)
	}
	d.broker, d.cfg = broker, kafka.Config{Brokers: broker.ListenAddrs()}
	d.progress.say("kafka", "in this process (kfake, which speaks Kafka's protocol) on %s",
		strings.Join(d.cfg.Brokers, ","))
	return nil
}

// serviceName is the first part of the topics' names.
func (d *demo) serviceName() string {
	if d.broker == nil {
		return "posthaste-demo-" + d.tag
	}
	return "order-service"
}

// prepare makes the service's table, the outbox and the topics, and starts to consume.
func (d *demo) prepare(ctx context.Context) (err error) {
	if d.DatabaseURL != "" {
		if err := d.cleaner.note(note{Schema: &schemaNote{d.url, d.schema}}); err != nil {
			return err
		}
	}
	if d.db, err = connect(ctx, d.url); err != nil {
		return err
	}
	d.service, err = newService(d.db, d.serviceName(), d.schema, d.table)
	if err == nil {
		err = d.service.prepare(ctx)
	}
	if err == nil {
		err = d.migrate(ctx)
	}
	if err == nil {
		err = d.makeTopics(ctx)
	}
	if err == nil {
		d.consumer, err = follow(d.cfg, d.service.topics)
	}
	return err
}

func connect(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("connect to PostgreSQL: the URL or a PG* variable is wrong")
	}
	config.MaxConns = writers + 4
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err == nil {
		err = pool.Ping(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	return pool, nil
}

// migrate runs the command that users run.
func (d *demo) migrate(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, d.Program, "migrate", "up")
	cmd.Dir, cmd.Env = d.folder, d.environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make outbox: %w:\n%s", err, out)
	}
	return nil
}

func (d *demo) makeTopics(ctx context.Context) error {
	if d.broker == nil {
		if err := d.cleaner.note(note{Topics: &topicsNote{d.cfg, d.service.topics}}); err != nil {
			return err
		}
	}
	opts, err := d.cfg.ClientOptions()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("make topics: %w", err)
	}
	defer client.Close()
	const brokersDefault = -1
	answers, err := kadm.NewClient(client).CreateTopics(ctx, partitions, brokersDefault, nil, d.service.topics...)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		return fmt.Errorf("make topics: %w", err)
	}
	return nil
}

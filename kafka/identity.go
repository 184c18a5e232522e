package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clusterID asks any broker for the id of its cluster, "" where it has none. The client's own metadata would not do: it
// may be as old as its longest silence.
func clusterID(ctx context.Context, client *kgo.Client) (string, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // none; nil would be all
	err := errors.New("no broker is known")
	for _, broker := range slices.Concat(client.DiscoveredBrokers(), client.SeedBrokers()) {
		var answer kmsg.Response
		if answer, err = broker.Request(ctx, request); err == nil {
			return clusterOf(answer), nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return "", err
}

func clusterOf(answer kmsg.Response) string {
	if metadata, ok := answer.(*kmsg.MetadataResponse); ok && metadata.ClusterID != nil {
		return *metadata.ClusterID
	}
	return ""
}

// identity is the cluster that a producer may send to.
//
// What answers behind an address can change at any time: a name leads elsewhere, a tunnel or a load balancer is turned
// round. The client would not mind. It goes by addresses, it connects anew by itself, and a broker before version 4
// takes records for every topic whose name it knows, whoever gave out the producer id. So each connection is asked
// before the first records leave by it: a connection stays where it leads.
type identity struct {
	mu    sync.Mutex
	own   string // "": any
	other string // one that was met instead
}

// errOtherCluster fails a connection, which the client tries again; the relay learns the reason from Ping.
var errOtherCluster = errors.New("another cluster answers")

func (i *identity) bind(cluster string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.own, i.other = cluster, ""
}

// met is the other cluster that was met in the place of the own one, "" for none.
func (i *identity) met() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.other
}

// bound is the cluster that may be sent to, "" for any.
func (i *identity) bound() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.own
}

// check asks the broker at the other end of a connection, on which nothing is on its way, which cluster it is of.
func (i *identity) check(conn net.Conn, own string) error {
	found, err := askCluster(conn)
	if err != nil {
		return fmt.Errorf("ask for the cluster's id: %w", err)
	}
	if found == own || found == "" {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.own == own {
		i.other = found
	}
	return errOtherCluster
}

const (
	// metadataVersion is the first that tells the id. Every broker speaks it.
	metadataVersion = 2
	// longestMetadata is far more than the brokers of a cluster fill.
	longestMetadata = 8 << 20
)

// askCluster is one request and its answer, past the client, which is between two of its own. It does not disturb the
// count of the client's requests: a broker returns the number of each as it came.
func askCluster(conn net.Conn) (string, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{}
	request.SetVersion(metadataVersion)
	if err := conn.SetReadDeadline(time.Now().Add(dialTimeout)); err != nil {
		return "", err
	}
	if _, err := conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, request, 0)); err != nil {
		return "", err
	}
	var head [8]byte // length, and the number of the request
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return "", err
	}
	size := int(binary.BigEndian.Uint32(head[:])) - 4
	if size < 0 || size > longestMetadata {
		return "", errors.New("what answers does not speak Kafka")
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(conn, body); err != nil {
		return "", err
	}
	answer := request.ResponseKind()
	if err := answer.ReadFrom(body); err != nil {
		return "", err
	}
	return clusterOf(answer), conn.SetReadDeadline(time.Time{})
}

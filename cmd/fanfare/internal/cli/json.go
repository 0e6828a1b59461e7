package cli

import (
	"encoding/json"
	"io"
	"time"
	"unicode/utf8"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

type jsonLines struct{ enc *json.Encoder }

func newJSONLines(w io.Writer) *jsonLines {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &jsonLines{enc}
}

func (j *jsonLines) write(v any) error { return j.enc.Encode(v) }

type jsonMessage struct {
	Type      string `json:"type"` // "message"
	Topic     string `json:"topic"`
	Number    uint64 `json:"number"`
	Publisher string `json:"publisher"`
	jsonData
}

// jsonData is the content of a message: Data if it is valid UTF-8, otherwise DataBase64.
type jsonData struct {
	Data       *string `json:"data,omitempty"`
	DataBase64 []byte  `json:"data_base64,omitempty"`
}

func dataAsJSON(data []byte) jsonData {
	if utf8.Valid(data) {
		s := string(data)
		return jsonData{Data: &s}
	}
	return jsonData{DataBase64: data}
}

// jsonGap is a gap, as an object of its own (type "gap") or in the summary of sub.
type jsonGap struct {
	Type      string `json:"type,omitempty"`
	Topic     string `json:"topic"`
	First     uint64 `json:"first"`
	Count     uint64 `json:"count"`          // messages; 0: unknown
	Open      bool   `json:"open,omitempty"` // all messages from First on may be lost
	Cause     string `json:"cause"`
	Publisher string `json:"publisher"`
	Name      string `json:"name,omitempty"` // of the publisher
}

// jsonNotice is what sub reports about a publisher. Fields that the event lacks are omitted.
type jsonNotice struct {
	Type       string    `json:"type"`            // "publisher", "collision", "refused", "fault", "dictionary_missing"
	Event      string    `json:"event,omitempty"` // of a publisher: "up", "ended", "lost", "restarted", "duplicate name"
	Topic      string    `json:"topic,omitempty"` // the subscribed topic, or the latest with a fault
	Other      string    `json:"other,omitempty"` // another topic with the same id
	Publisher  string    `json:"publisher"`
	Name       string    `json:"name,omitempty"`
	Address    string    `json:"address,omitempty"`
	Epoch      events.ID `json:"epoch,omitempty"`
	Group      string    `json:"group,omitempty"`
	Reason     string    `json:"reason,omitempty"` // why it is refused, or why this process was cut off
	Fault      string    `json:"fault,omitempty"`
	Count      uint64    `json:"count,omitempty"` // of the fault until now
	Codec      string    `json:"codec,omitempty"`
	Dictionary string    `json:"dictionary,omitempty"`
}

type jsonTraffic struct {
	Messages          uint64  `json:"messages"`
	Bytes             uint64  `json:"bytes"`
	Seconds           float64 `json:"seconds"` // from the first message to the last
	MessagesPerSecond float64 `json:"messages_per_second"`
}

func trafficIn(elapsed time.Duration, messages, bytes uint64) jsonTraffic {
	return jsonTraffic{messages, bytes, elapsed.Seconds(), perSecond(messages, elapsed)}
}

type pubSummary struct {
	Type      string `json:"type"` // "summary"
	Topic     string `json:"topic"`
	Publisher string `json:"publisher"`
	jsonTraffic
	Subscribers     int       `json:"subscribers"` // the highest number present at a time
	Silent          uint64    `json:"silent"`      // subscribers that stopped answering and have not returned
	Released        int       `json:"released"`    // subscribers that were released and have not caught up
	LeftBehind      uint64    `json:"left_behind"` // subscribers that left before they had received everything sent until then
	GivenUp         uint64    `json:"given_up"`    // packets that subscribers reported as permanently lost
	Packets         uint64    `json:"packets"`
	WireBytes       uint64    `json:"wire_bytes"`                   // of data packets
	Uncompressed    uint64    `json:"uncompressed_bytes,omitempty"` // size without -compress
	NAKs            uint64    `json:"naks"`
	NAKPackets      uint64    `json:"nak_packets"`
	Repairs         uint64    `json:"repairs"`
	NoMemory        uint64    `json:"no_memory,omitempty"` // packets lost over shm: // packets lost over shm:// because memory was full, counted for each subscriber
	FlowBlocked     uint64    `json:"flow_blocked"`
	RTTMicroseconds float64   `json:"rtt_us"`
	Unsent          uint64    `json:"unsent,omitempty"`     // messages that were published but never sent
	Unfinished      bool      `json:"unfinished,omitempty"` // interrupted before subscribers had received everything
	Delivered       bool      `json:"delivered"`            // every subscriber that was ever present received everything, and no bus reported that it cannot subscribe
	Legs            []jsonLeg `json:"legs,omitempty"`
	// Mismatch is the bus with a different configuration, if it made the command end.
	Mismatch *jsonMismatch `json:"mismatch,omitempty"`
	Error    string        `json:"error,omitempty"`
}

type subSummary struct {
	Type string `json:"type"` // "summary"
	jsonTraffic
	End      end  `json:"end"`
	Complete bool `json:"complete"`
	jsonFaults
	Evicted    *jsonEvicted     `json:"evicted,omitempty"`
	Records    uint64           `json:"state_records"` // records received with -from state
	Replaced   uint64           `json:"replaced"`      // messages replaced by newer ones of their topics (-slow conflate)
	Publishers []jsonPublisher  `json:"publishers"`
	Topics     []jsonTopicCount `json:"topics,omitempty"` // with several topics: the first maxTopicsListed
	jsonReceived
	Legs  []jsonLeg `json:"legs,omitempty"`
	Error string    `json:"error,omitempty"`
}

type jsonTopicCount struct {
	Topic    string `json:"topic"`
	Messages uint64 `json:"messages"`
}

type jsonFaults struct {
	GapCount    int       `json:"gap_count"`
	Gaps        []jsonGap `json:"gaps"` // the first maxGapsListed
	Lost        uint64    `json:"lost"` // messages; excludes gaps of unknown size
	LostUnknown bool      `json:"lost_unknown"`
	Collisions  int       `json:"topic_collisions"`
	Refused     int       `json:"publishers_refused"`
	NoState     int       `json:"no_state"`         // topics of a publisher that began without their state and not with message 0
	Untrusted   uint64    `json:"messages_refused"` // of publishers that are not trusted for the topic
	Faults      uint64    `json:"publisher_faults"` // protocol violations by publishers, as of the last event
}

type jsonReceived struct {
	Packets     uint64  `json:"packets"`
	Missing     uint64  `json:"missing"` // packets
	Repaired    uint64  `json:"repaired"`
	Late        uint64  `json:"late"`
	PacketsLost uint64  `json:"packets_lost"`
	Duplicates  uint64  `json:"duplicates"`
	NAKs        uint64  `json:"naks"`
	Overflow    uint64  `json:"overflow"` // datagrams dropped since the receive queue was full: by this host, or over shm: // datagrams dropped because the receive queue was full: by this host, or over shm:// by publishers
	Damaged     uint64  `json:"damaged"`  // packets dropped for a wrong checksum
	RepairP50   float64 `json:"repair_p50_us"`
	RepairP99   float64 `json:"repair_p99_us"`
}

type jsonPublisher struct {
	ID       string `json:"publisher"`
	Messages uint64 `json:"messages"`
	State    string `json:"state"`
}

type pingReply struct {
	Type      string  `json:"type"` // "reply"
	Sequence  uint64  `json:"sequence"`
	Responder string  `json:"responder"`
	Bytes     int     `json:"bytes"`
	RTT       float64 `json:"rtt_us"`
}

type pingSummary struct {
	Type       string  `json:"type"` // "summary"
	Sent       uint64  `json:"sent"`
	Answered   uint64  `json:"answered"`
	Replies    uint64  `json:"replies"`
	Responders int     `json:"responders"`
	Bytes      int     `json:"bytes"`
	Min        float64 `json:"min_us"`
	Avg        float64 `json:"avg_us"`
	Max        float64 `json:"max_us"`
	P50        float64 `json:"p50_us"`
	P90        float64 `json:"p90_us"`
	P99        float64 `json:"p99_us"`
	P999       float64 `json:"p999_us"`
}

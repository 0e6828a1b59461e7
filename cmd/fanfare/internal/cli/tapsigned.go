package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/tap"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// appendSignedText says that a packet is signed, and with which key.
func appendSignedText(b []byte, x *tap.Signed) []byte {
	if x == nil || x.Err != nil {
		return b
	}
	return fmt.Appendf(b, " signed=%v train=%d node=%d", signed.KeyID(x.Key()), x.Counter, x.Node)
}

// jsonSigned is what a packet says of its signature.
type jsonSigned struct {
	Key     string    `json:"key"`
	Time    time.Time `json:"time"`
	Counter uint64    `json:"counter"`
	Node    uint8     `json:"node"`
	Packets int       `json:"packets"` // of the train, at most
}

func appendSignedJSON(b []byte, x *tap.Signed) []byte {
	if x == nil || x.Err != nil {
		return b
	}
	text, _ := json.Marshal(jsonSigned{
		Key: signed.KeyID(x.Key()).String(), Time: time.Unix(int64(x.Time), 0).UTC(), Counter: x.Counter, Node: x.Node, Packets: 1 << x.Depth(),
	}) // it is always possible
	return append(append(b, `,"signed":`...), text...)
}

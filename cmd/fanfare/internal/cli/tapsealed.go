package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/tap"
	"github.com/fanfaremq/fanfare/transport/sealed"
	"github.com/fanfaremq/fanfare/transport/sealed/keyring"
)

// keysFile is the keyring that sealed packets are opened with: that of -keys, or of the URL.
func (r *tapRun) keysFile() (string, error) {
	switch {
	case r.keys != "" && r.fabric.Keys != "":
		return "", usagef("keys= of -t, and -keys: leave one out")
	case r.keys != "":
		return r.keys, nil
	}
	return r.fabric.Keys, nil
}

// readKeys has sealed packets opened, if there is a keyring.
func (r *tapRun) readKeys() error {
	file, err := r.keysFile()
	if err != nil || file == "" {
		return err
	}
	list, err := keyring.Read(file)
	if err != nil {
		return err
	}
	set, err := sealed.NewKeyset(list)
	if err != nil {
		return err
	}
	r.obs.Unseal(sealed.NewReader(set))
	return nil
}

// appendSealedText says that a packet was sealed, and what its header shows where there is no more.
func appendSealedText(b []byte, x *tap.Sealed) []byte {
	switch {
	case x == nil:
		return b
	case x.Err == nil:
		return fmt.Appendf(b, " sealed=0x%08x", x.Key)
	}
	return fmt.Appendf(b, " bytes=%d sealed=0x%08x sender=%x counter=%d time=%s unopened=%q", x.Bytes, x.Key, x.Salt, x.Counter, x.At().Format(time.RFC3339), x.Err.Error())
}

// jsonSealed is what a sealed packet shows without a key.
type jsonSealed struct {
	Key      string    `json:"key"`
	Sender   string    `json:"sender"`
	Counter  uint32    `json:"counter"`
	Time     time.Time `json:"time"`
	Unopened string    `json:"unopened,omitempty"` // why
}

func appendSealedJSON(b []byte, x *tap.Sealed) []byte {
	if x == nil {
		return b
	}
	o := jsonSealed{Key: sealed.KeyID(x.Key).String(), Sender: fmt.Sprintf("%x", x.Salt), Counter: x.Counter, Time: x.At()}
	if x.Err != nil {
		o.Unopened = x.Err.Error()
	}
	text, _ := json.Marshal(o) // it is always possible
	return append(append(b, `,"sealed":`...), text...)
}

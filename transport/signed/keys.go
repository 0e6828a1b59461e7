// Package signed makes packets that prove which publisher sent them. A publisher signs each train that it sends with
// its own key (Ed25519), and each packet of the train carries the signature and its path in a tree of hashes, so that
// it can be verified alone, whatever else is lost (C. K. Wong and S. S. Lam, Digital Signatures for Flows and
// Multicasts, 1998). A trust file lists which key may publish on which topics. docs/protocol §29 defines the format,
// docs/security.md the guarantees.
//
//	Sender.Send ─► tree over the packets of a train, one signature ─► inner Send
//	packet ─► Verifier.Check: cheap checks, hashes, one verification a train ─► taken, or why not
//
// The publisher id contains the key id, so packets signed with one key in a stream of another are refused without a
// table.
package signed

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// KeyID identifies a key: it is the upper half of the id of each publisher that signs with it.
type KeyID uint32

// String is the id as in the log: 0x and eight hexadecimal digits.
func (id KeyID) String() string { return fmt.Sprintf("0x%08x", uint32(id)) }

// IDOf is the id of a key: the first 4 bytes of its SHA-256.
func IDOf(key ed25519.PublicKey) KeyID {
	h := sha256.Sum256(key)
	return KeyID(binary.LittleEndian.Uint32(h[:]))
}

// idOfPublisher is the id of the key with which a publisher signs.
func idOfPublisher(publisher events.ID) KeyID { return KeyID(publisher >> 32) }

// PublisherID is the id of a publisher that signs with key: its lower half is that of id, which is random or a hash of
// the publisher's name.
func PublisherID(key ed25519.PrivateKey, id events.ID) events.ID {
	return events.ID(IDOf(publicOf(key)))<<32 | id&0xffffffff | 1
}

func publicOf(key ed25519.PrivateKey) ed25519.PublicKey { return ed25519.PublicKey(key[32:]) }

const (
	publicPrefix  = "ed25519:"
	privatePrefix = "ed25519-private:"
)

// Format is the text of a key in trust files.
func Format(key ed25519.PublicKey) string {
	return publicPrefix + base64.StdEncoding.EncodeToString(key)
}

// ParsePublic parses the output of Format.
func ParsePublic(text string) (ed25519.PublicKey, error) {
	b64, ok := strings.CutPrefix(text, publicPrefix)
	if !ok {
		if strings.HasPrefix(text, privatePrefix) {
			return nil, errors.New("this is a private key, which must be kept secret: a trust file has public keys (fanfare key sign-show)")
		}
		return nil, fmt.Errorf("a key is written %sBASE64, as fanfare key sign-show does", publicPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(b64)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("after %s there must be %d bytes in base64", publicPrefix, ed25519.PublicKeySize)
	}
	return key, nil
}

// FileError describes an invalid trust file or signing key file, with the position. It contains no secret.
type FileError struct {
	File string
	Line int // from 1; 0: the file as a whole
	Err  error
}

func (e *FileError) Error() string {
	at := e.File
	if e.Line > 0 {
		at = fmt.Sprintf("%s, line %d", e.File, e.Line)
	}
	return strings.TrimPrefix(fmt.Sprintf("%s: %v", at, e.Err), ": ")
}

func (e *FileError) Unwrap() error { return e.Err }

// maxBytes bounds a file.
const maxBytes = 1 << 20

// secrecy is what users other than the owner of a file must not be able to do, on systems with file modes.
type secrecy struct {
	mask         os.FileMode
	others       string // "others than its owner may …"
	mode, advice string // what to set, and further advice
}

var (
	ofKeys  = secrecy{0o077, "use it", "600", ", and make a new key if another user may have read it"}
	ofTrust = secrecy{0o022, "change it", "644", ""}
)

// readFile reads a file, unless others have permissions that they must not have.
func readFile(file string, keep *secrecy) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // otherwise opening a pipe would wait for a writer
	if err != nil {
		return nil, &FileError{File: file, Err: cause(err)}
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, &FileError{File: file, Err: cause(err)}
	case info.IsDir():
		return nil, &FileError{File: file, Err: errors.New("it is a directory")}
	case !info.Mode().IsRegular():
		return nil, &FileError{File: file, Err: errors.New("it is not a regular file, so changes of it could not be read")}
	case info.Mode().Perm()&keep.mask != 0 && runtime.GOOS != "windows":
		return nil, &FileError{File: file, Err: fmt.Errorf("others than its owner may %s (mode %04o): run chmod %s %s%s", keep.others, info.Mode().Perm(), keep.mode, file, keep.advice)}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && len(text) > maxBytes {
		err = fmt.Errorf("it is longer than %d bytes", maxBytes)
	}
	if err != nil {
		return nil, &FileError{File: file, Err: cause(err)}
	}
	return text, nil
}

// cause is an error of package os without the path, which FileError adds.
func cause(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// ReadKey reads a file with a signing key. It refuses a file that users other than its owner can read or change. Errors
// are a *FileError.
func ReadKey(file string) (ed25519.PrivateKey, error) {
	text, err := readFile(file, &ofKeys)
	if err != nil {
		return nil, err
	}
	var key ed25519.PrivateKey
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		b64, ok := strings.CutPrefix(line, privatePrefix)
		seed, err := base64.StdEncoding.DecodeString(b64)
		switch {
		case key != nil:
			return nil, &FileError{file, n, errors.New("there is a second key: a publisher signs with one key")}
		case !ok || err != nil || len(seed) != ed25519.SeedSize:
			return nil, &FileError{file, n, errors.New("this is not a signing key made by fanfare key sign-new")}
		}
		key = ed25519.NewKeyFromSeed(seed)
	}
	if key == nil {
		return nil, &FileError{File: file, Err: errors.New("it has no key: make one with fanfare key sign-new")}
	}
	return key, nil
}

// CreateKey makes a signing key and writes it to a new file that only its owner may read. It never overwrites a file.
func CreateKey(file string) (ed25519.PrivateKey, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, &FileError{File: file, Err: fmt.Errorf("%w, and keys are never overwritten: use another file", fs.ErrExist)}
	}
	if err != nil {
		return nil, &FileError{File: file, Err: cause(err)}
	}
	_, err = fmt.Fprintf(f, "# A signing key: any holder of this file can publish as its owner. Keep it secret.\n# Its public part: %s\n%s%s\n",
		Format(public), privatePrefix, base64.StdEncoding.EncodeToString(key.Seed()))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(file)
		return nil, &FileError{File: file, Err: cause(err)}
	}
	return key, nil
}

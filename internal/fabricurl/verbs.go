package fabricurl

import (
	"net/url"

	"github.com/fanfaremq/fanfare/rdma/verbs"
	"github.com/fanfaremq/fanfare/transport/verbsnet"
)

// openVerbs opens rdma-core, if the program was built with it.
func openVerbs(u *url.URL) (*Host, error) {
	c, err := verbsnet.ParseDevice(u)
	if err != nil {
		return nil, &Error{Err: err}
	}
	p, err := verbs.Open()
	if err != nil {
		return nil, err
	}
	return find(p, c.Device)
}

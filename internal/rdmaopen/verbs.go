package rdmaopen

import (
	"net/url"

	"github.com/fanfaremq/fanfare/rdma/verbs"
)

// openVerbs opens rdma-core, where the program was built with it. It has no
// options.
func openVerbs(u *url.URL) (*Host, error) {
	if err := options(u, nil); err != nil {
		return nil, err
	}
	p, err := verbs.Open()
	if err != nil {
		return nil, err
	}
	return find(p, u.Hostname())
}

package fabric

import "github.com/fanfaremq/fanfare/rdma/internal/soft"

type portState = soft.PortState

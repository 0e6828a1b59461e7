// Functions of rdma-core for Go. They return 0 or a positive errno unless stated
// otherwise; structs are passed by value.
#ifndef FANFARE_CVERBS_H
#define FANFARE_CVERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>

// The pointer that a call returned, or its errno.
struct cv_ptr {
	void *ptr;
	int err;
};

// A sockaddr of the connection manager: family 0 is NULL.
struct cv_addr {
	uint16_t family;
	uint16_t port; // host byte order
	uint32_t flow, scope;
	union ibv_gid ip; // IPv4 in the first four bytes; the GID of AF_IB
};

struct cv_list {
	struct ibv_device **list;
	int count;
	int err;
};

struct cv_device_attr {
	struct ibv_device_attr attr;
	int err;
};

struct cv_port_attr {
	struct ibv_port_attr attr;
	int err;
};

struct cv_gids {
	struct ibv_gid_entry *list; // the caller frees it
	int count;
	int err;
};

struct cv_gid {
	struct ibv_gid_entry entry;
	int err;
};

struct cv_pkey {
	uint16_t pkey; // host byte order
	int err;
};

struct cv_async {
	int type;
	uint8_t port;
	uint64_t qp, cq; // contexts
	int err;
};

struct cv_note {
	uint64_t cq; // context
	int err;
};

struct cv_qp_init {
	uint64_t context;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp_cap cap;
	int type, sig_all;
	uint32_t flags;
};

// A queue pair and its actual sizes.
struct cv_qp {
	struct ibv_qp *qp;
	struct ibv_qp_cap cap;
	int err;
};

struct cv_qp_attr {
	uint32_t state, cur_state;
	uint16_t pkey_index;
	uint8_t port;
	uint32_t qkey, sq_psn;
	int err;
};

struct cv_ah_attr {
	union ibv_gid dgid;
	uint32_t flow_label;
	uint8_t sgid_index, hop_limit, traffic_class;
	uint16_t dlid;
	uint8_t sl, src_path_bits, static_rate, is_global, port;
};

// The number of posted work requests, and the errno of the next one.
struct cv_posted {
	int count;
	int err;
};

// An acknowledged event of the connection manager.
struct cv_event {
	int type, status;
	int attach_err; // errno of the failed attachment, if status is -1
	uint64_t id;    // context of the id
	uint64_t join;  // context of the join, in a multicast event
	struct cv_ah_attr ah;
	uint32_t qpn, qkey;
	uint8_t private_data_len;
	int err; // EAGAIN: there is none
};

struct cv_id_info {
	struct ibv_context *verbs; // NULL: bound to no device
	uint8_t port;
	struct cv_addr local;
	union ibv_gid sgid;
};

struct cv_list cv_devices(void);
struct cv_ptr cv_open(struct ibv_device **list, int i);
struct cv_device_attr cv_query_device(struct ibv_context *c);
struct cv_port_attr cv_query_port(struct ibv_context *c, uint8_t port);
struct cv_gids cv_gids(struct ibv_context *c, int max);
struct cv_gid cv_gid(struct ibv_context *c, uint8_t port, int index);
struct cv_pkey cv_query_pkey(struct ibv_context *c, uint8_t port, int index);
struct cv_async cv_next_async(struct ibv_context *c);
struct cv_ptr cv_alloc_pd(struct ibv_context *c);
struct cv_ptr cv_comp_channel(struct ibv_context *c);
struct cv_note cv_next_note(struct ibv_comp_channel *ch);
struct cv_ptr cv_create_cq(struct ibv_context *c, int entries, uint64_t context, struct ibv_comp_channel *ch);
int cv_poll(struct ibv_cq *cq, struct ibv_wc *wc, int max);
int cv_poll_for(struct ibv_cq *cq, struct ibv_wc *wc, int max, int64_t ns);
int cv_req_notify(struct ibv_cq *cq, int solicited);
int cv_destroy_cq(struct ibv_cq *cq);
int cv_destroy_comp_channel(struct ibv_comp_channel *ch);
struct cv_ptr cv_reg_mr(struct ibv_pd *pd, uint64_t addr, uint64_t length, int access);
struct cv_ptr cv_create_ah(struct ibv_pd *pd, struct cv_ah_attr attr);
int cv_dealloc_pd(struct ibv_pd *pd);
int cv_dereg_mr(struct ibv_mr *mr);
int cv_destroy_ah(struct ibv_ah *ah);
struct cv_qp cv_create_qp(struct ibv_pd *pd, struct cv_qp_init init);
int cv_modify_qp(struct ibv_qp *qp, struct cv_qp_attr attr, int mask);
struct cv_qp_attr cv_query_qp(struct ibv_qp *qp);
int cv_attach(struct ibv_qp *qp, union ibv_gid gid, uint16_t lid);
int cv_detach(struct ibv_qp *qp, union ibv_gid gid, uint16_t lid);
int cv_destroy_qp(struct ibv_qp *qp);

// Arrays of n linked work requests, each with max_sge elements.
struct ibv_send_wr *cv_send_wrs(int n, int max_sge);
struct ibv_recv_wr *cv_recv_wrs(int n, int max_sge);
struct cv_posted cv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wrs, int n);
struct cv_posted cv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wrs, int n);

struct cv_ptr cv_event_channel(void);
struct cv_event cv_next_event(struct rdma_event_channel *ch);
struct cv_ptr cv_create_id(struct rdma_event_channel *ch, uint64_t context, int ps);
void cv_sync_devices(void);
struct cv_id_info cv_id_info(struct rdma_cm_id *id);
int cv_bind(struct rdma_cm_id *id, struct cv_addr a);
int cv_resolve_addr(struct rdma_cm_id *id, struct cv_addr src, struct cv_addr dst, int ms);
int cv_resolve_route(struct rdma_cm_id *id, int ms);
int cv_join(struct rdma_cm_id *id, uint32_t mask, uint32_t flags, struct cv_addr a, uint64_t context);
int cv_leave(struct rdma_cm_id *id, struct cv_addr a);
struct cv_qp cv_create_id_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct cv_qp_init init);
void cv_forget_id_qp(struct rdma_cm_id *id);
int cv_destroy_id(struct rdma_cm_id *id);

#endif

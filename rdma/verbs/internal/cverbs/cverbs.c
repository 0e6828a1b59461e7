//go:build rdma && linux && cgo

#include "cverbs.h"

#include <errno.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// failed returns errno after a failed call, or EIO if the call has not set it.
static int failed(void) { return errno > 0 ? errno : EIO; }

// Verbs return an errno; some drivers return a negative one, or -1 and set errno.
static int errno_of(int rc)
{
	if (rc == 0)
		return 0;
	if (rc == -1)
		return failed();
	return rc < 0 ? -rc : rc;
}

// verb clears errno before a call, so that the error of an earlier failure is not
// returned.
#define verb(call) (errno = 0, errno_of(call))

static struct cv_ptr made(void *p)
{
	struct cv_ptr r = { .ptr = p, .err = p ? 0 : failed() };
	return r;
}

// ---- devices

struct cv_list cv_devices(void)
{
	struct cv_list r = { 0 };

	errno = 0;
	r.list = ibv_get_device_list(&r.count);
	if (!r.list)
		r.err = failed();
	return r;
}

struct cv_ptr cv_open(struct ibv_device **list, int i)
{
	errno = 0;
	return made(ibv_open_device(list[i]));
}

struct cv_device_attr cv_query_device(struct ibv_context *c)
{
	struct cv_device_attr r = { 0 };

	r.err = verb(ibv_query_device(c, &r.attr));
	return r;
}

struct cv_port_attr cv_query_port(struct ibv_context *c, uint8_t port)
{
	struct cv_port_attr r = { 0 };

	r.err = verb(ibv_query_port(c, port, &r.attr));
	return r;
}

struct cv_gids cv_gids(struct ibv_context *c, int max)
{
	struct cv_gids r = { 0 };
	ssize_t n;

	r.list = calloc(max > 0 ? max : 1, sizeof(*r.list));
	if (!r.list) {
		r.err = ENOMEM;
		return r;
	}
	errno = 0;
	n = ibv_query_gid_table(c, r.list, max, 0);
	if (n < 0) {
		r.err = errno_of((int)n);
		free(r.list);
		r.list = NULL;
		return r;
	}
	r.count = (int)n;
	return r;
}

struct cv_gid cv_gid(struct ibv_context *c, uint8_t port, int index)
{
	struct cv_gid r = { 0 };

	r.err = verb(ibv_query_gid_ex(c, port, index, &r.entry, 0));
	return r;
}

struct cv_pkey cv_query_pkey(struct ibv_context *c, uint8_t port, int index)
{
	struct cv_pkey r = { 0 };
	__be16 k = 0;

	r.err = verb(ibv_query_pkey(c, port, index, &k));
	r.pkey = be16toh(k);
	return r;
}

// An event is acknowledged immediately, because destroying its object would wait for
// that (man ibv_get_async_event).
struct cv_async cv_next_async(struct ibv_context *c)
{
	struct cv_async r = { 0 };
	struct ibv_async_event ev;

	errno = 0;
	if (ibv_get_async_event(c, &ev)) {
		r.err = failed();
		return r;
	}
	r.type = ev.event_type;
	switch (ev.event_type) {
	case IBV_EVENT_CQ_ERR:
		r.cq = (uintptr_t)ev.element.cq->cq_context;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		r.qp = (uintptr_t)ev.element.qp->qp_context;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		r.port = (uint8_t)ev.element.port_num;
		break;
	default: // an event of the device
		break;
	}
	ibv_ack_async_event(&ev);
	return r;
}

// ---- completion queues

struct cv_ptr cv_comp_channel(struct ibv_context *c)
{
	errno = 0;
	return made(ibv_create_comp_channel(c));
}

// A notification is acknowledged immediately, because ibv_destroy_cq waits for that.
struct cv_note cv_next_note(struct ibv_comp_channel *ch)
{
	struct cv_note r = { 0 };
	struct ibv_cq *cq;
	void *context;

	errno = 0;
	if (ibv_get_cq_event(ch, &cq, &context)) {
		r.err = failed();
		return r;
	}
	r.cq = (uintptr_t)context;
	ibv_ack_cq_events(cq, 1);
	return r;
}

struct cv_ptr cv_create_cq(struct ibv_context *c, int entries, uint64_t context, struct ibv_comp_channel *ch)
{
	errno = 0;
	return made(ibv_create_cq(c, entries, (void *)(uintptr_t)context, ch, 0));
}

int cv_poll(struct ibv_cq *cq, struct ibv_wc *wc, int max) { return ibv_poll_cq(cq, max, wc); }

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

// Reading the clock costs more than polling an empty queue.
enum { looks_per_clock = 8 };

// cv_poll_for polls until there is a completion or ns nanoseconds have passed.
int cv_poll_for(struct ibv_cq *cq, struct ibv_wc *wc, int max, int64_t ns)
{
	int n = ibv_poll_cq(cq, max, wc);
	int64_t end;

	if (n)
		return n;
	end = now_ns() + ns;
	do {
		for (int i = 0; i < looks_per_clock; i++) {
			relax();
			n = ibv_poll_cq(cq, max, wc);
			if (n)
				return n;
		}
	} while (now_ns() < end);
	return 0;
}

int cv_req_notify(struct ibv_cq *cq, int solicited) { return verb(ibv_req_notify_cq(cq, solicited)); }

int cv_destroy_cq(struct ibv_cq *cq) { return verb(ibv_destroy_cq(cq)); }

int cv_destroy_comp_channel(struct ibv_comp_channel *ch) { return verb(ibv_destroy_comp_channel(ch)); }

// ---- protection domains, memory, address handles

struct cv_ptr cv_alloc_pd(struct ibv_context *c)
{
	errno = 0;
	return made(ibv_alloc_pd(c));
}

struct cv_ptr cv_reg_mr(struct ibv_pd *pd, uint64_t addr, uint64_t length, int access)
{
	errno = 0;
	return made(ibv_reg_mr(pd, (void *)(uintptr_t)addr, length, access));
}

struct cv_ptr cv_create_ah(struct ibv_pd *pd, struct cv_ah_attr a)
{
	struct ibv_ah_attr attr = {
		.grh = { .dgid = a.dgid, .flow_label = a.flow_label, .sgid_index = a.sgid_index,
			 .hop_limit = a.hop_limit, .traffic_class = a.traffic_class },
		.dlid = a.dlid, .sl = a.sl, .src_path_bits = a.src_path_bits,
		.static_rate = a.static_rate, .is_global = a.is_global, .port_num = a.port,
	};

	errno = 0;
	return made(ibv_create_ah(pd, &attr));
}

int cv_dealloc_pd(struct ibv_pd *pd) { return verb(ibv_dealloc_pd(pd)); }

int cv_dereg_mr(struct ibv_mr *mr) { return verb(ibv_dereg_mr(mr)); }

int cv_destroy_ah(struct ibv_ah *ah) { return verb(ibv_destroy_ah(ah)); }

// ---- queue pairs

static void init_attr(struct ibv_qp_init_attr_ex *a, struct ibv_pd *pd, const struct cv_qp_init *init)
{
	memset(a, 0, sizeof(*a));
	a->qp_context = (void *)(uintptr_t)init->context;
	a->send_cq = init->send_cq;
	a->recv_cq = init->recv_cq;
	a->cap = init->cap;
	a->qp_type = init->type;
	a->sq_sig_all = init->sig_all;
	a->comp_mask = IBV_QP_INIT_ATTR_PD;
	a->pd = pd;
	if (init->flags) { // drivers reject unknown bits of the mask
		a->comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
		a->create_flags = init->flags;
	}
}

// made_qp returns a queue pair with its actual sizes: rxe makes receive queues larger
// than requested, and reports that only when queried.
static struct cv_qp made_qp(struct ibv_qp *qp, const struct ibv_qp_cap *cap)
{
	struct cv_qp r = { .qp = qp, .cap = *cap };
	struct ibv_qp_attr a = { 0 };
	struct ibv_qp_init_attr init = { 0 };

	if (!qp) {
		r.err = failed();
		return r;
	}
	if (!ibv_query_qp(qp, &a, IBV_QP_CAP, &init)) {
		if (init.cap.max_send_wr > r.cap.max_send_wr)
			r.cap.max_send_wr = init.cap.max_send_wr;
		if (init.cap.max_recv_wr > r.cap.max_recv_wr)
			r.cap.max_recv_wr = init.cap.max_recv_wr;
	}
	return r;
}

struct cv_qp cv_create_qp(struct ibv_pd *pd, struct cv_qp_init init)
{
	struct ibv_qp_init_attr_ex a;

	init_attr(&a, pd, &init);
	errno = 0;
	return made_qp(ibv_create_qp_ex(pd->context, &a), &a.cap);
}

int cv_modify_qp(struct ibv_qp *qp, struct cv_qp_attr a, int mask)
{
	struct ibv_qp_attr attr = {
		.qp_state = a.state, .cur_qp_state = a.cur_state, .pkey_index = a.pkey_index,
		.port_num = a.port, .qkey = a.qkey, .sq_psn = a.sq_psn,
	};

	return verb(ibv_modify_qp(qp, &attr, mask));
}

struct cv_qp_attr cv_query_qp(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { 0 };
	struct ibv_qp_init_attr init = { 0 };
	struct cv_qp_attr r = { 0 };

	r.err = verb(ibv_query_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_SQ_PSN, &init));
	r.state = a.qp_state;
	r.cur_state = a.cur_qp_state;
	r.pkey_index = a.pkey_index;
	r.port = a.port_num;
	r.qkey = a.qkey;
	r.sq_psn = a.sq_psn;
	return r;
}

int cv_attach(struct ibv_qp *qp, union ibv_gid gid, uint16_t lid) { return verb(ibv_attach_mcast(qp, &gid, lid)); }

int cv_detach(struct ibv_qp *qp, union ibv_gid gid, uint16_t lid) { return verb(ibv_detach_mcast(qp, &gid, lid)); }

int cv_destroy_qp(struct ibv_qp *qp) { return verb(ibv_destroy_qp(qp)); }

struct ibv_send_wr *cv_send_wrs(int n, int max_sge)
{
	struct ibv_send_wr *wrs = calloc(n, sizeof(*wrs) + max_sge * sizeof(struct ibv_sge));
	struct ibv_sge *sg;

	if (!wrs)
		return NULL;
	sg = (struct ibv_sge *)(wrs + n);
	for (int i = 0; i < n; i++) {
		wrs[i].next = i + 1 < n ? &wrs[i + 1] : NULL;
		wrs[i].sg_list = sg + (size_t)i * max_sge;
	}
	return wrs;
}

struct ibv_recv_wr *cv_recv_wrs(int n, int max_sge)
{
	struct ibv_recv_wr *wrs = calloc(n, sizeof(*wrs) + max_sge * sizeof(struct ibv_sge));
	struct ibv_sge *sg;

	if (!wrs)
		return NULL;
	sg = (struct ibv_sge *)(wrs + n);
	for (int i = 0; i < n; i++) {
		wrs[i].next = i + 1 < n ? &wrs[i + 1] : NULL;
		wrs[i].sg_list = sg + (size_t)i * max_sge;
	}
	return wrs;
}

struct cv_posted cv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wrs, int n)
{
	struct ibv_send_wr *next = wrs[n - 1].next, *bad = NULL;
	struct cv_posted r = { .count = n };

	wrs[n - 1].next = NULL;
	r.err = verb(ibv_post_send(qp, wrs, &bad));
	wrs[n - 1].next = next;
	if (r.err)
		r.count = bad ? (int)(bad - wrs) : 0;
	return r;
}

struct cv_posted cv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wrs, int n)
{
	struct ibv_recv_wr *next = wrs[n - 1].next, *bad = NULL;
	struct cv_posted r = { .count = n };

	wrs[n - 1].next = NULL;
	r.err = verb(ibv_post_recv(qp, wrs, &bad));
	wrs[n - 1].next = next;
	if (r.err)
		r.count = bad ? (int)(bad - wrs) : 0;
	return r;
}

// ---- connection manager

// sockaddr writes an address to s, and returns s, or NULL for no address.
static struct sockaddr *sockaddr(struct sockaddr_storage *s, struct cv_addr a, int ps)
{
	memset(s, 0, sizeof(*s));
	s->ss_family = a.family;
	switch (a.family) {
	case 0:
		return NULL;
	case AF_INET: {
		struct sockaddr_in *in = (struct sockaddr_in *)s;

		in->sin_port = htons(a.port);
		memcpy(&in->sin_addr, a.ip.raw, sizeof(in->sin_addr));
		break;
	}
	case AF_INET6: {
		struct sockaddr_in6 *in = (struct sockaddr_in6 *)s;

		in->sin6_port = htons(a.port);
		in->sin6_flowinfo = htonl(a.flow);
		in->sin6_scope_id = a.scope;
		memcpy(&in->sin6_addr, a.ip.raw, sizeof(in->sin6_addr));
		break;
	}
	case AF_IB: {
		struct sockaddr_ib *ib = (struct sockaddr_ib *)s;

		memcpy(&ib->sib_addr, a.ip.raw, sizeof(ib->sib_addr));
		ib->sib_sid = htobe64((uint64_t)ps << 16 | a.port);
		ib->sib_sid_mask = ~0ull;
		break;
	}
	}
	return (struct sockaddr *)s;
}

struct cv_ptr cv_event_channel(void)
{
	errno = 0;
	return made(rdma_create_event_channel());
}

// librdmacm detects removed devices only when it lists the devices.
void cv_sync_devices(void)
{
	struct ibv_context **list = rdma_get_devices(NULL);

	if (list)
		rdma_free_devices(list);
}

static struct cv_ah_attr ah_attr(const struct ibv_ah_attr *a)
{
	struct cv_ah_attr r = {
		.dgid = a->grh.dgid, .flow_label = a->grh.flow_label, .sgid_index = a->grh.sgid_index,
		.hop_limit = a->grh.hop_limit, .traffic_class = a->grh.traffic_class,
		.dlid = a->dlid, .sl = a->sl, .src_path_bits = a->src_path_bits,
		.static_rate = a->static_rate, .is_global = a->is_global, .port = a->port_num,
	};
	return r;
}

// Everything is copied, and the event acknowledged immediately, so that leaving and
// destroying never wait in C. After a retrieved MULTICAST_ERROR with status -1 errno is
// that of the failed attachment (librdmacm cma.c, ucma_process_join).
struct cv_event cv_next_event(struct rdma_event_channel *ch)
{
	struct cv_event r = { 0 };
	struct rdma_cm_event *ev;

	errno = 0;
	if (rdma_get_cm_event(ch, &ev)) {
		r.err = failed();
		return r;
	}
	r.attach_err = errno;
	r.type = ev->event;
	r.status = ev->status;
	r.id = (uintptr_t)ev->id->context;
	if (ev->event == RDMA_CM_EVENT_MULTICAST_JOIN || ev->event == RDMA_CM_EVENT_MULTICAST_ERROR) {
		// private_data is the join's context, not bytes; an error from the kernel has
		// no other data.
		r.join = (uintptr_t)ev->param.ud.private_data;
		r.private_data_len = ev->param.ud.private_data_len;
		if (ev->event == RDMA_CM_EVENT_MULTICAST_JOIN || ev->status == -1) {
			r.ah = ah_attr(&ev->param.ud.ah_attr);
			r.qpn = ev->param.ud.qp_num;
			r.qkey = ev->param.ud.qkey;
		}
	}
	rdma_ack_cm_event(ev);
	return r;
}

struct cv_ptr cv_create_id(struct rdma_event_channel *ch, uint64_t context, int ps)
{
	struct rdma_cm_id *id = NULL;

	errno = 0;
	if (rdma_create_id(ch, &id, (void *)(uintptr_t)context, ps))
		return made(NULL);
	return made(id);
}

struct cv_id_info cv_id_info(struct rdma_cm_id *id)
{
	struct sockaddr *s = rdma_get_local_addr(id);
	struct cv_id_info r = { .verbs = id->verbs, .port = id->port_num };

	if (id->verbs)
		r.sgid = id->route.addr.addr.ibaddr.sgid;
	r.local.family = s->sa_family;
	switch (s->sa_family) {
	case AF_INET: {
		struct sockaddr_in *in = (struct sockaddr_in *)s;

		r.local.port = ntohs(in->sin_port);
		memcpy(r.local.ip.raw, &in->sin_addr, sizeof(in->sin_addr));
		break;
	}
	case AF_INET6: {
		struct sockaddr_in6 *in = (struct sockaddr_in6 *)s;

		r.local.port = ntohs(in->sin6_port);
		r.local.flow = ntohl(in->sin6_flowinfo);
		r.local.scope = in->sin6_scope_id;
		memcpy(r.local.ip.raw, &in->sin6_addr, sizeof(in->sin6_addr));
		break;
	}
	case AF_IB:
		memcpy(r.local.ip.raw, &((struct sockaddr_ib *)s)->sib_addr, sizeof(r.local.ip));
		break;
	}
	return r;
}

int cv_bind(struct rdma_cm_id *id, struct cv_addr a)
{
	struct sockaddr_storage s;

	return verb(rdma_bind_addr(id, sockaddr(&s, a, id->ps)));
}

int cv_resolve_addr(struct rdma_cm_id *id, struct cv_addr src, struct cv_addr dst, int ms)
{
	struct sockaddr_storage from, to;

	return verb(rdma_resolve_addr(id, sockaddr(&from, src, id->ps), sockaddr(&to, dst, id->ps), ms));
}

int cv_resolve_route(struct rdma_cm_id *id, int ms)
{
	return verb(rdma_resolve_route(id, ms));
}

int cv_join(struct rdma_cm_id *id, uint32_t mask, uint32_t flags, struct cv_addr a, uint64_t context)
{
	struct sockaddr_storage s;
	struct rdma_cm_join_mc_attr_ex attr = { .comp_mask = mask, .join_flags = flags, .addr = sockaddr(&s, a, id->ps) };

	return verb(rdma_join_multicast_ex(id, &attr, (void *)(uintptr_t)context));
}

int cv_leave(struct rdma_cm_id *id, struct cv_addr a)
{
	struct sockaddr_storage s;

	return verb(rdma_leave_multicast(id, sockaddr(&s, a, id->ps)));
}

struct cv_qp cv_create_id_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct cv_qp_init init)
{
	struct ibv_qp_init_attr_ex a;

	init_attr(&a, pd, &init);
	errno = 0;
	return made_qp(rdma_create_qp_ex(id, &a) ? NULL : id->qp, &a.cap);
}

// rdma_destroy_qp ignores EBUSY and leaks the queue pair. So Go destroys it with
// ibv_destroy_qp, and then this removes it from the id.
void cv_forget_id_qp(struct rdma_cm_id *id) { id->qp = NULL; }

int cv_destroy_id(struct rdma_cm_id *id)
{
	return verb(rdma_destroy_id(id));
}

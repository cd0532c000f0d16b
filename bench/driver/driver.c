/*
 * The load driver: one librdkafka client that loads or times any Kafka-compatible cluster, so that two systems are
 * measured by the same hand. Prints one JSON line on standard output (gap: progress lines first) and exits 0; exits 1
 * with a message on standard error when the cluster cannot be used at all.
 *
 *   driver MODE bootstrap=HOST:PORT,... topic=NAME [key=value ...] [set.LIBRDKAFKA_PROPERTY=value ...]
 *
 *   create    partitions rf [replicas=2,1,3] [config.NAME=VALUE]   create a topic, wait until every partition leads
 *   produce   size count partitions                    as fast as it goes, round robin by runs of 500
 *   consume   count partitions                         from the beginning until count records came; times the flow from
 *                                                      the first batch on, and (first_s) the wait for that
 *   latency   size rate seconds partitions             open loop, each record timed from the moment it was due
 *   gap       size rate seconds                        as latency, to partition 0, but times the silence between acks;
 *                                                      ends early when standard input closes
 *   writable  partitions [rf [replicas]] [since_ns]    until one write to each partition is acknowledged, acks=all;
 *                                                      with rf it creates the topic first
 *   insync    rf [since_ns]                            until every partition of the topic has rf replicas in sync
 *
 * Clocks are CLOCK_MONOTONIC in nanoseconds, which every process of one machine shares (since_ns).
 * Every wait is bounded by wait_s (default 120). Read next: bench/run.py, which runs this and explains the cells.
 */
#include <librdkafka/rdkafka.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MILLION 1000000LL
#define BILLION 1000000000LL
#define RUN 500     /* records handed over in one call, all to one partition */
#define MAX_GAPS 32 /* silences reported by gap */

static int argument_count;
static char **arguments;

static int64_t now_ns(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec * BILLION + t.tv_nsec;
}

static void sleep_until_ns(int64_t when) {
        struct timespec t = {when / BILLION, when % BILLION};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
                ;
}

static void die(const char *format, ...) {
        va_list list;
        va_start(list, format);
        fputs("driver: ", stderr);
        vfprintf(stderr, format, list);
        fputc('\n', stderr);
        va_end(list);
        exit(1);
}

/* The value of key=value on the command line, or the fallback; without a fallback the key must be there. */
static const char *text(const char *key, const char *fallback) {
        size_t size = strlen(key);
        for (int i = 2; i < argument_count; i++)
                if (strncmp(arguments[i], key, size) == 0 && arguments[i][size] == '=')
                        return arguments[i] + size + 1;
        if (fallback == NULL)
                die("%s=... is missing", key);
        return fallback;
}

static int64_t number(const char *key, int64_t fallback) {
        const char *value = text(key, fallback < 0 ? NULL : "");
        return *value ? strtoll(value, NULL, 10) : fallback;
}

static int64_t deadline_ns(void) { return now_ns() + number("wait_s", 120) * BILLION; }

static double cpu_seconds(void) {
        struct rusage used;
        getrusage(RUSAGE_SELF, &used);
        return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* ---- delivery reports: what every mode wants to know of its writes -------------------------------------------- */

static struct {
        _Atomic int64_t acked, failed, last_ack_ns, gap_count;
        int64_t longest_gap_ns, longest_gap_at_ns;
        int64_t gap_ns[MAX_GAPS], gap_at_ns[MAX_GAPS];
        int64_t *due_ns, *took_ns; /* latency only: when record i was due, what it took (-1: failed) */
        char first_error[256];
} seen;

static void note_gap(int64_t from, int64_t to) {
        int64_t gap = to - from;
        if (gap > seen.longest_gap_ns) {
                seen.longest_gap_ns = gap;
                seen.longest_gap_at_ns = from;
        }
        if (gap >= 50 * MILLION && seen.gap_count < MAX_GAPS) {
                seen.gap_ns[seen.gap_count] = gap;
                seen.gap_at_ns[seen.gap_count] = from;
                seen.gap_count++;
        }
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
        (void)rk, (void)opaque;
        int64_t now = now_ns();
        if (message->err) {
                if (seen.failed++ == 0)
                        snprintf(seen.first_error, sizeof seen.first_error, "%s", rd_kafka_err2str(message->err));
        } else {
                if (seen.last_ack_ns)
                        note_gap(seen.last_ack_ns, now);
                seen.last_ack_ns = now;
                seen.acked++;
        }
        if (seen.took_ns) {
                int64_t i = (int64_t)(intptr_t)message->_private;
                seen.took_ns[i] = message->err ? -1 : now - seen.due_ns[i];
        }
}

static atomic_int polling = 1;

static void *poll_forever(void *rk) {
        while (polling)
                rd_kafka_poll(rk, 100);
        return NULL;
}

/* ---- clients ------------------------------------------------------------------------------------------------- */

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
        char problem[512];
        if (rd_kafka_conf_set(conf, key, value, problem, sizeof problem) != RD_KAFKA_CONF_OK)
                die("%s", problem);
}

static void stay_silent(const rd_kafka_t *rk, int level, const char *facility, const char *line) {
        (void)rk, (void)level, (void)facility, (void)line;
}

/* A configuration that looks for a lost cluster often: the client must not add its own patience to a measurement. */
static rd_kafka_conf_t *new_conf(void) {
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        set(conf, "bootstrap.servers", text("bootstrap", NULL));
        set(conf, "client.id", "driver");
        set(conf, "reconnect.backoff.ms", "20");
        set(conf, "reconnect.backoff.max.ms", "100");
        set(conf, "retry.backoff.ms", "50");
        set(conf, "socket.nagle.disable", "true");
        set(conf, "topic.metadata.refresh.fast.interval.ms", "100");
        if (!getenv("DRIVER_LOG"))
                rd_kafka_conf_set_log_cb(conf, stay_silent);
        return conf;
}

static rd_kafka_t *open_client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
        char problem[512];
        for (int i = 2; i < argument_count; i++) {
                char *equals = strchr(arguments[i], '=');
                if (strncmp(arguments[i], "set.", 4) == 0 && equals) {
                        *equals = 0;
                        set(conf, arguments[i] + 4, equals + 1);
                        *equals = '=';
                }
        }
        rd_kafka_t *rk = rd_kafka_new(type, conf, problem, sizeof problem);
        if (!rk)
                die("%s", problem);
        return rk;
}

static rd_kafka_topic_t *open_topic(rd_kafka_t *rk) {
        rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, text("topic", NULL), NULL);
        if (!topic)
                die("topic: %s", rd_kafka_err2str(rd_kafka_last_error()));
        return topic;
}

/* Bytes that a codec shrinks about as much as it does log lines: random words over a small alphabet. */
static char *make_payload(size_t size) {
        char *payload = malloc(size + 1);
        uint32_t rng = 2463534242u;
        for (size_t i = 0; i < size; i++) {
                rng ^= rng << 13, rng ^= rng >> 17, rng ^= rng << 5;
                payload[i] = "etaoinshrdlu 0123456789:"[rng % 24];
        }
        return payload;
}

/* ---- create, insync: the cluster as metadata shows it -------------------------------------------------------- */

static void fill_replicas(rd_kafka_NewTopic_t *topic, int partitions) {
        char list[256], problem[512], *rest = list, *one;
        int32_t ids[16];
        size_t count = 0;
        snprintf(list, sizeof list, "%s", text("replicas", ""));
        while ((one = strsep(&rest, ",")) && *one && count < 16)
                ids[count++] = atoi(one);
        for (int p = 0; count && p < partitions; p++)
                if (rd_kafka_NewTopic_set_replica_assignment(topic, p, ids, count, problem, sizeof problem))
                        die("%s", problem);
}

/* Ask once for the topic to be created. */
static rd_kafka_resp_err_t ask_to_create(rd_kafka_t *rk) {
        char problem[512] = "";
        int partitions = (int)number("partitions", 1), placed = *text("replicas", "") != 0;
        rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(text("topic", NULL), partitions,
                                                           placed ? -1 : (int)number("rf", 1), problem, sizeof problem);
        if (!topic)
                die("%s", problem);
        fill_replicas(topic, partitions);
        for (int i = 2; i < argument_count; i++) {
                char *equals = strchr(arguments[i], '=');
                if (strncmp(arguments[i], "config.", 7) == 0 && equals) {
                        *equals = 0;
                        rd_kafka_NewTopic_set_config(topic, arguments[i] + 7, equals + 1);
                        *equals = '=';
                }
        }
        rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(rk, RD_KAFKA_ADMIN_OP_CREATETOPICS);
        rd_kafka_AdminOptions_set_request_timeout(options, 5000, problem, sizeof problem);
        rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
        rd_kafka_CreateTopics(rk, &topic, 1, options, queue);
        rd_kafka_event_t *event = rd_kafka_queue_poll(queue, 10000);
        rd_kafka_resp_err_t error = event ? rd_kafka_event_error(event) : RD_KAFKA_RESP_ERR__TIMED_OUT;
        if (event && !error) {
                size_t count;
                const rd_kafka_topic_result_t **results =
                    rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
                error = rd_kafka_topic_result_error(results[0]);
        }
        if (event)
                rd_kafka_event_destroy(event);
        rd_kafka_queue_destroy(queue);
        rd_kafka_AdminOptions_destroy(options);
        rd_kafka_NewTopic_destroy(topic);
        return error;
}

/* Ask for metadata until somebody answers. An admin request alone would look for brokers that were not there at first
 * only when librdkafka's one-second timer comes round; asking for metadata looks at once. */
static void greet(rd_kafka_t *rk, int64_t deadline) {
        const struct rd_kafka_metadata *view;
        while (rd_kafka_metadata(rk, 0, NULL, &view, 50)) {
                if (now_ns() > deadline)
                        die("no broker answers");
                usleep(5000);
        }
        rd_kafka_metadata_destroy(view);
}

static void create_until_there(rd_kafka_t *rk) {
        int64_t deadline = deadline_ns();
        rd_kafka_resp_err_t error;
        greet(rk, deadline);
        while ((error = ask_to_create(rk)) && error != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) {
                if (now_ns() > deadline)
                        die("create topic: %s", rd_kafka_err2str(error));
                usleep(20000);
        }
}

/* Wait until metadata shows `partitions` partitions that all lead and have `rf` replicas in sync; the time it was so. */
static int64_t wait_in_sync(rd_kafka_t *rk, int partitions, int rf) {
        int64_t deadline = deadline_ns();
        rd_kafka_topic_t *topic = open_topic(rk);
        for (;;) {
                const struct rd_kafka_metadata *view = NULL;
                int good = 0;
                if (!rd_kafka_metadata(rk, 0, topic, &view, 5000) && view->topic_cnt == 1) {
                        const rd_kafka_metadata_topic_t *one = &view->topics[0];
                        for (int p = 0; p < one->partition_cnt; p++)
                                good += one->partitions[p].leader >= 0 && one->partitions[p].isr_cnt >= rf;
                        if (partitions == 0 && good)
                                partitions = one->partition_cnt;
                }
                if (view)
                        rd_kafka_metadata_destroy(view);
                if (partitions && good >= partitions)
                        break;
                if (now_ns() > deadline)
                        die("%d of %d partitions of %s lead with %d in sync", good, partitions, text("topic", NULL), rf);
                usleep(10000);
        }
        int64_t when = now_ns();
        rd_kafka_topic_destroy(topic);
        return when;
}

static void mode_create(void) {
        int64_t start = now_ns();
        rd_kafka_t *rk = open_client(RD_KAFKA_PRODUCER, new_conf());
        create_until_there(rk);
        int64_t end = wait_in_sync(rk, (int)number("partitions", 1), *text("replicas", "") ? 1 : (int)number("rf", 1));
        printf("{\"mode\": \"create\", \"seconds\": %.6f}\n", (end - start) / 1e9);
}

static void mode_insync(void) {
        int64_t start = number("since_ns", now_ns());
        rd_kafka_t *rk = open_client(RD_KAFKA_PRODUCER, new_conf());
        int64_t end = wait_in_sync(rk, 0, (int)number("rf", -1));
        printf("{\"mode\": \"insync\", \"seconds\": %.6f}\n", (end - start) / 1e9);
}

/* ---- produce, consume ---------------------------------------------------------------------------------------- */

static void mode_produce(void) {
        int64_t size = number("size", -1), count = number("count", -1), partitions = number("partitions", 1);
        rd_kafka_conf_t *conf = new_conf();
        set(conf, "linger.ms", "5");
        set(conf, "batch.size", "1000000");
        set(conf, "batch.num.messages", "1000000");
        set(conf, "queue.buffering.max.messages", "1000000");
        set(conf, "queue.buffering.max.kbytes", "262144");
        set(conf, "delivery.report.only.error", "true");
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        rd_kafka_t *rk = open_client(RD_KAFKA_PRODUCER, conf);
        rd_kafka_topic_t *topic = open_topic(rk);
        char *payload = make_payload(size);
        /* Metadata is fetched before the clock starts: this mode times the flow, not the greeting. */
        const struct rd_kafka_metadata *view;
        if (rd_kafka_metadata(rk, 0, topic, &view, 30000))
                die("no metadata");
        rd_kafka_metadata_destroy(view);
        static rd_kafka_message_t run[RUN];
        int64_t start = now_ns(), sent = 0, turn = 0;
        while (sent < count) {
                int wanted = count - sent < RUN ? (int)(count - sent) : RUN;
                for (int i = 0; i < wanted; i++) {
                        memset(&run[i], 0, sizeof run[i]);
                        run[i].payload = payload; /* never freed or changed before the end: no copy needed */
                        run[i].len = size;
                }
                int taken = rd_kafka_produce_batch(topic, (int32_t)(turn % partitions), 0, run, wanted);
                sent += taken;
                turn += taken == wanted;
                rd_kafka_poll(rk, taken == wanted ? 0 : 1);
        }
        rd_kafka_resp_err_t error = rd_kafka_flush(rk, (int)(number("wait_s", 120) * 1000));
        double seconds = (now_ns() - start) / 1e9;
        if (error)
                die("flush: %s", rd_kafka_err2str(error));
        printf("{\"mode\": \"produce\", \"records\": %lld, \"failed\": %lld, \"error\": \"%s\", \"bytes\": %lld, "
               "\"seconds\": %.6f, \"client_cpu_s\": %.3f}\n",
               (long long)count, (long long)seen.failed, seen.first_error, (long long)(count * size), seconds,
               cpu_seconds());
}

static void mode_consume(void) {
        int64_t count = number("count", -1), partitions = number("partitions", 1), got = 0, bytes = 0, first = 0;
        int64_t early = 0, early_bytes = 0; /* what the first batch brought, when the greeting was over */
        rd_kafka_conf_t *conf = new_conf();
        set(conf, "group.id", "driver");
        set(conf, "enable.auto.commit", "false");
        set(conf, "queued.min.messages", "1000000");
        set(conf, "queued.max.messages.kbytes", "262144");
        set(conf, "fetch.wait.max.ms", "100");
        set(conf, "auto.offset.reset", "earliest");
        rd_kafka_t *rk = open_client(RD_KAFKA_CONSUMER, conf);
        rd_kafka_poll_set_consumer(rk);
        rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)partitions);
        for (int p = 0; p < partitions; p++)
                rd_kafka_topic_partition_list_add(list, text("topic", NULL), p)->offset = RD_KAFKA_OFFSET_BEGINNING;
        int64_t start = now_ns(), deadline = deadline_ns();
        rd_kafka_assign(rk, list);
        rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(rk);
        static rd_kafka_message_t *run[10000];
        while (got < count) {
                ssize_t came = rd_kafka_consume_batch_queue(queue, 200, run, 10000);
                for (ssize_t i = 0; i < came; i++) {
                        if (!run[i]->err)
                                got++, bytes += (int64_t)run[i]->len;
                        rd_kafka_message_destroy(run[i]);
                }
                if (got && !first)
                        first = now_ns(), early = got, early_bytes = bytes;
                if (now_ns() > deadline)
                        die("%lld of %lld records came", (long long)got, (long long)count);
        }
        int64_t end = now_ns();
        printf("{\"mode\": \"consume\", \"records\": %lld, \"bytes\": %lld, \"seconds\": %.6f, \"first_s\": %.6f, "
               "\"client_cpu_s\": %.3f}\n",
               (long long)(got - early), (long long)(bytes - early_bytes), (end - first) / 1e9, (first - start) / 1e9,
               cpu_seconds());
}

/* ---- latency, gap: an open loop ------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b) {
        int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
        return (x > y) - (x < y);
}

static double quantile_ms(const int64_t *sorted, int64_t count, double q) {
        if (count == 0)
                return -1;
        int64_t at = (int64_t)(q * count);
        return sorted[at < count ? at : count - 1] / 1e6;
}

static rd_kafka_t *open_timed_producer(const char *idempotent) {
        rd_kafka_conf_t *conf = new_conf();
        set(conf, "linger.ms", "0");
        set(conf, "acks", "all");
        set(conf, "enable.idempotence", idempotent);
        set(conf, "queue.buffering.max.messages", "1000000");
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        return open_client(RD_KAFKA_PRODUCER, conf);
}

static void send_one(rd_kafka_topic_t *topic, int32_t partition, char *payload, int64_t size, int64_t index) {
        while (rd_kafka_produce(topic, partition, 0, payload, size, NULL, 0, (void *)(intptr_t)index))
                usleep(1000); /* the client's queue is full: the record's clock is running since it was due */
}

static void mode_latency(void) {
        int64_t size = number("size", -1), rate = number("rate", -1), partitions = number("partitions", 1);
        int64_t count = rate * number("seconds", -1);
        rd_kafka_t *rk = open_timed_producer("false");
        rd_kafka_topic_t *topic = open_topic(rk);
        char *payload = make_payload(size);
        seen.due_ns = malloc(count * sizeof *seen.due_ns);
        seen.took_ns = malloc(count * sizeof *seen.took_ns);
        memset(seen.took_ns, 0xff, count * sizeof *seen.took_ns);
        pthread_t poller;
        pthread_create(&poller, NULL, poll_forever, rk);
        int64_t start = now_ns();
        for (int64_t i = 0; i < count; i++) {
                seen.due_ns[i] = start + i * BILLION / rate;
                sleep_until_ns(seen.due_ns[i]);
                send_one(topic, (int32_t)(i % partitions), payload, size, i);
        }
        int64_t deadline = deadline_ns();
        while (seen.acked + seen.failed < count && now_ns() < deadline)
                usleep(1000);
        polling = 0;
        pthread_join(poller, NULL);
        int64_t kept = 0, *sorted = malloc(count * sizeof *sorted);
        for (int64_t i = 0; i < count; i++)
                if (seen.took_ns[i] >= 0)
                        sorted[kept++] = seen.took_ns[i];
        qsort(sorted, kept, sizeof *sorted, by_size);
        printf("{\"mode\": \"latency\", \"records\": %lld, \"failed\": %lld, \"error\": \"%s\", \"p50_ms\": %.3f, "
               "\"p99_ms\": %.3f, \"p999_ms\": %.3f, \"max_ms\": %.3f, \"client_cpu_s\": %.3f}\n",
               (long long)count, (long long)(count - kept), seen.first_error, quantile_ms(sorted, kept, 0.5),
               quantile_ms(sorted, kept, 0.99), quantile_ms(sorted, kept, 0.999), quantile_ms(sorted, kept, 1),
               cpu_seconds());
}

static int stdin_closed(void) {
        struct pollfd in = {.fd = 0, .events = POLLIN};
        char drain[64];
        return poll(&in, 1, 0) > 0 && read(0, drain, sizeof drain) <= 0;
}

static void mode_gap(void) {
        int64_t size = number("size", -1), rate = number("rate", -1), count = rate * number("seconds", -1), sent = 0;
        rd_kafka_t *rk = open_timed_producer("true");
        rd_kafka_topic_t *topic = open_topic(rk);
        char *payload = make_payload(size);
        pthread_t poller;
        pthread_create(&poller, NULL, poll_forever, rk);
        int64_t start = now_ns(), report = start;
        for (; sent < count; sent++) {
                sleep_until_ns(start + sent * BILLION / rate);
                send_one(topic, 0, payload, size, sent);
                int64_t now = now_ns();
                if (now < report)
                        continue;
                report = now + 100 * MILLION;
                printf("{\"acked\": %lld, \"silent_ms\": %.1f, \"now_ns\": %lld}\n", (long long)seen.acked,
                       seen.last_ack_ns ? (now - seen.last_ack_ns) / 1e6 : -1, (long long)now);
                fflush(stdout);
                if (stdin_closed())
                        break;
        }
        int64_t deadline = deadline_ns();
        while (seen.acked + seen.failed < sent && now_ns() < deadline)
                usleep(1000);
        polling = 0;
        pthread_join(poller, NULL);
        printf("{\"mode\": \"gap\", \"records\": %lld, \"acked\": %lld, \"failed\": %lld, \"error\": \"%s\", "
               "\"longest_gap_ms\": %.1f, \"longest_gap_at_ns\": %lld, \"gaps\": [",
               (long long)sent, (long long)seen.acked, (long long)seen.failed, seen.first_error,
               seen.longest_gap_ns / 1e6, (long long)seen.longest_gap_at_ns);
        for (int i = 0; i < seen.gap_count; i++)
                printf("%s{\"at_ns\": %lld, \"ms\": %.1f}", i ? ", " : "", (long long)seen.gap_at_ns[i],
                       seen.gap_ns[i] / 1e6);
        printf("]}\n");
}

/* ---- writable: from a command to the first write that counts -------------------------------------------------- */

static void mode_writable(void) {
        int64_t start = number("since_ns", now_ns()), partitions = number("partitions", 1), created = 0;
        rd_kafka_conf_t *conf = new_conf();
        set(conf, "linger.ms", "0");
        set(conf, "acks", "all");
        set(conf, "topic.metadata.refresh.interval.ms", "100");
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        rd_kafka_t *rk = open_client(RD_KAFKA_PRODUCER, conf);
        if (number("rf", 0) || *text("replicas", "")) {
                create_until_there(rk);
                created = now_ns() - start;
        }
        rd_kafka_topic_t *topic = open_topic(rk);
        int64_t deadline = deadline_ns();
        for (int64_t p = 0; p < partitions; p++) {
                while (seen.acked <= p) {
                        int64_t over = seen.acked + seen.failed;
                        if (!rd_kafka_produce(topic, (int32_t)p, RD_KAFKA_MSG_F_COPY, "x", 1, NULL, 0, NULL))
                                while (seen.acked + seen.failed == over && now_ns() < deadline)
                                        rd_kafka_poll(rk, 10);
                        if (now_ns() > deadline)
                                die("partition %lld took no write: %s", (long long)p, seen.first_error);
                }
        }
        printf("{\"mode\": \"writable\", \"seconds\": %.6f, \"created_s\": %.6f}\n", (now_ns() - start) / 1e9,
               created / 1e9);
}

int main(int argc, char **argv) {
        static const struct {
                const char *name;
                void (*run)(void);
        } modes[] = {{"create", mode_create},   {"insync", mode_insync}, {"produce", mode_produce},
                     {"consume", mode_consume}, {"latency", mode_latency}, {"gap", mode_gap},
                     {"writable", mode_writable}};
        argument_count = argc;
        arguments = argv;
        for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
                if (strcmp(argv[1], modes[i].name) == 0) {
                        modes[i].run();
                        fflush(stdout);
                        /* The measurement is over: leaving without goodbye saves the client's orderly end. */
                        _exit(0);
                }
        die("usage: driver create|insync|produce|consume|latency|gap|writable bootstrap=... topic=... [key=value ...]");
}

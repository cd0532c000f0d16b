import java.io.*;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.*;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Supplier;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.ProduceResponse.RecordError;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.*;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Says what a leader of Apache Kafka makes of record batches.
 *
 * Reads lines "now_ms", then "config name key=value,...", then "batch name hex"; answers each batch with one line:
 * code, exception, message, record errors (index=message, separated by 0x1f), and, where it was taken, what was stored:
 * attributes, last offset delta, base and largest timestamp, count of records,
 * and whether Kafka's own consumer could read them (1 or 0). Fields are separated by tabs.
 */
public class AdmissionJudge {
    static long now;

    static class Still implements Time, Scheduler {
        public long milliseconds() { return now; }
        public long nanoseconds() { return now * 1000000L; }
        public void sleep(long ms) { }
        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { }
        public void startup() { }
        public void shutdown() { }
        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) { return null; }
        public void resizeThreadPool(int size) { }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        System.setOut(System.err);
        File folder = Files.createTempDirectory("judge").toFile();
        Map<String, UnifiedLog> logs = new HashMap<>();
        now = Long.parseLong(in.readLine());
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            if (words[0].equals("config"))
                logs.put(words[1], open(folder, words[1], words[2]));
            else
                out.println(judge(logs.get(words[1]), HexFormat.of().parseHex(words[2])));
        }
        out.flush();
        Runtime.getRuntime().halt(0);
    }

    static UnifiedLog open(File folder, String name, String settings) throws Exception {
        Map<String, String> config = new HashMap<>();
        for (String setting : settings.split(","))
            if (!setting.isEmpty())
                config.put(setting.split("=")[0], setting.split("=")[1]);
        config.put("segment.index.bytes", "4096");
        config.put("segment.ms", "" + Long.MAX_VALUE);
        File home = new File(folder, name + "-0");
        home.mkdirs();
        Still still = new Still();
        return UnifiedLog.create(home, new LogConfig(config), 0, 0, still, new BrokerTopicStats(), still, 1 << 30,
            new ProducerStateManagerConfig(86400000, false), 1 << 30, new LogDirFailureChannel(10), true,
            Optional.empty());
    }

    static int readable(DefaultRecordBatch stored) {
        try {
            for (org.apache.kafka.common.record.internal.Record record : stored)
                record.hasKey();
            return 1;
        } catch (RuntimeException error) {
            return 0;
        }
    }

    static String judge(UnifiedLog log, byte[] bytes) {
        long before = log.logEndOffset();
        try {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
            ProduceRequest.validateRecords((short) 12, records);
            log.appendAsLeader(records, 7, AppendOrigin.CLIENT, RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) 1);
            log.updateHighWatermark(log.logEndOffset());
            FileRecords read = (FileRecords) log.read(before, 1 << 30, FetchIsolation.LOG_END, true).records;
            ByteBuffer buffer = ByteBuffer.allocate(read.sizeInBytes());
            read.readInto(buffer, 0);
            DefaultRecordBatch stored = (DefaultRecordBatch) MemoryRecords.readableRecords(buffer).batches().iterator().next();
            int attributes = stored.compressionType().id | (stored.timestampType().id << 3) | (stored.isTransactional() ? 16 : 0)
                | (stored.isControlBatch() ? 32 : 0) | (stored.deleteHorizonMs().isPresent() ? 64 : 0);
            return "NONE\t\t\t\t" + attributes + "\t" + (stored.lastOffset() - stored.baseOffset()) + "\t"
                + stored.baseTimestamp() + "\t" + stored.maxTimestamp() + "\t" + stored.countOrNull() + "\t" + readable(stored);
        } catch (RecordValidationException refused) {
            List<String> shown = new ArrayList<>();
            for (RecordError error : refused.recordErrors())
                shown.add(error.batchIndex + "=" + error.message);
            return Errors.forException(refused.invalidException()) + "\t" + refused.invalidException().getClass().getSimpleName()
                + "\t" + refused.invalidException().getMessage() + "\t" + String.join("\u001f", shown);
        } catch (Throwable error) {
            return Errors.forException(error) + "\t" + error.getClass().getSimpleName() + "\t" + ("" + error.getMessage()).replaceAll("\\s", " ") + "\t";
        }
    }
}

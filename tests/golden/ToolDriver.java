import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs many command lines of Apache Kafka's tools in one JVM, and says what each would have printed and exited with.
 *
 * A line on standard input is a command: base64 words with spaces between - limit in ms, standard input, main class,
 * arguments ("-" is the empty word). The answer is one line: status, standard output, standard error, the last two as
 * base64. A tool that calls Exit or System.exit is over at that moment, as in a process of its own: its thread is parked for ever and
 * what other threads and its shutdown hooks print later is thrown away. A tool whose main returns is over when its shutdown hooks have run.
 * Status 130 is a tool that was still running when its limit was over, as after Ctrl-C: its shutdown hooks have run.
 */
public class ToolDriver {
    private static final long HOOK_MS = 5_000;

    private static final class Run {
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        final ByteArrayOutputStream err = new ByteArrayOutputStream();
        final List<Runnable> hooks = new ArrayList<>();
        final CountDownLatch over = new CountDownLatch(1);
        Set<Thread> strangers;
        InputStream in;
        volatile boolean stopping;
        int status;

        synchronized void end(int status) {
            if (over.getCount() > 0) {
                this.status = status;
                over.countDown();
            }
        }
    }

    private static final AtomicReference<Run> NOW = new AtomicReference<>();

    private static final class Switch extends OutputStream {
        private final boolean err;

        Switch(boolean err) {
            this.err = err;
        }

        @Override
        public void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int from, int length) {
            Run run = NOW.get();
            if (run != null && run.over.getCount() > 0)
                (err ? run.err : run.out).write(bytes, from, length);
        }
    }

    private static final class Source extends InputStream {
        @Override
        public int read() throws java.io.IOException {
            return NOW.get().in.read();
        }

        @Override
        public int read(byte[] bytes, int from, int length) throws java.io.IOException {
            return NOW.get().in.read(bytes, from, length);
        }

        @Override
        public int available() throws java.io.IOException {
            return NOW.get().in.available();
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<Thread, Thread> hooksOfThisJvm() throws Exception {
        Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
        field.setAccessible(true);
        return (Map<Thread, Thread>) field.get(null);
    }

    private static void runHooksOfThisJvm(Run run) throws Exception {
        Map<Thread, Thread> all = hooksOfThisJvm();
        List<Thread> own = new ArrayList<>();
        synchronized (run) {
            for (Thread hook : all.keySet())
                if (!run.strangers.contains(hook))
                    own.add(hook);
            own.forEach(all::remove);
        }
        for (Thread hook : own)
            hook.start();
        for (Thread hook : own)
            hook.join(30_000);
    }

    private static void park() {
        while (true) {
            try {
                Thread.sleep(Long.MAX_VALUE);
            } catch (InterruptedException ignored) {
                // parked for good
            }
        }
    }

    private static Run run(long limitMs, byte[] stdin, String main, String[] arguments) throws Exception {
        Run run = new Run();
        run.in = new ByteArrayInputStream(stdin);
        run.strangers = Set.copyOf(hooksOfThisJvm().keySet());
        NOW.set(run);
        Thread thread = new Thread(() -> {
            try {
                Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) arguments);
                if (!run.stopping) {
                    runHooksOfThisJvm(run);
                    run.end(0);
                }
            } catch (java.lang.reflect.InvocationTargetException failed) {
                System.err.print("Exception in thread \"main\" ");
                failed.getCause().printStackTrace();
                run.end(1);
            } catch (Throwable failed) {
                failed.printStackTrace();
                run.end(99);
            }
        }, "main");
        thread.setDaemon(true);
        thread.start();
        if (!run.over.await(limitMs, TimeUnit.MILLISECONDS)) {
            run.stopping = true;
            for (Runnable hook : run.hooks)
                hook.run();
            runHooksOfThisJvm(run);
            run.end(130);
        } else {
            runHooks(run);
        }
        return run;
    }

    /** Else a producer that its hook would have closed sends what it has while the next tool runs already. */
    private static void runHooks(Run run) throws InterruptedException {
        for (Runnable hook : run.hooks) {
            Thread thread = new Thread(hook, "hook");
            thread.setDaemon(true);
            thread.start();
            thread.join(HOOK_MS);
        }
    }

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setOut(new PrintStream(new Switch(false), true, "UTF-8"));
        System.setErr(new PrintStream(new Switch(true), true, "UTF-8"));
        System.setIn(new Source());
        Thread driver = Thread.currentThread();
        java.security.Policy.setPolicy(new java.security.Policy() {
            @Override
            public boolean implies(java.security.ProtectionDomain domain, java.security.Permission permission) {
                return true;
            }
        });
        System.setSecurityManager(new SecurityManager() {
            @Override
            public void checkPermission(java.security.Permission permission) {
                // everything is allowed
            }

            @Override
            public void checkExit(int status) {
                if (Thread.currentThread() != driver) {
                    NOW.get().end(status);
                    park();
                }
            }
        });
        Exit.setExitProcedure((status, message) -> {
            NOW.get().end(status);
            park();
        });
        Exit.setHaltProcedure((status, message) -> {
            NOW.get().end(status);
            park();
        });
        Exit.setShutdownHookAdder((name, hook) -> NOW.get().hooks.add(hook));
        String line;
        while ((line = commands.readLine()) != null) {
            List<byte[]> words = new ArrayList<>();
            for (String word : line.split(" "))
                words.add(word.equals("-") ? new byte[0] : Base64.getDecoder().decode(word));
            String[] arguments = new String[words.size() - 3];
            for (int i = 0; i < arguments.length; i++)
                arguments[i] = new String(words.get(i + 3), StandardCharsets.UTF_8);
            String main = new String(words.get(2), StandardCharsets.UTF_8);
            Run run = run(Long.parseLong(new String(words.get(0))), words.get(1), main, arguments);
            Base64.Encoder encoder = Base64.getEncoder();
            answers.println(run.status + " " + encoder.encodeToString(run.out.toByteArray()) + "- "
                + encoder.encodeToString(run.err.toByteArray()) + "-");
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}

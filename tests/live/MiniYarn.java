import java.io.File;
import java.io.FileOutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.nodemanager.NodeManager;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;

/**
 * A YARN on loopback: a resource manager and a node manager in this process. Arguments: the port at which programs are
 * submitted, and the folder, below which it puts conf/yarn-site.xml for those who submit.
 */
public class MiniYarn {
    static final String[] ADDRESSES = {
        "resourcemanager.scheduler.address", "resourcemanager.resource-tracker.address", "resourcemanager.admin.address",
        "resourcemanager.webapp.address", "nodemanager.address", "nodemanager.localizer.address",
        "nodemanager.webapp.address", "nodemanager.collector-service.address",
    };

    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[1]);
        YarnConfiguration configuration = new YarnConfiguration();
        for (String each : ADDRESSES) {
            configuration.set("yarn." + each, "127.0.0.1:0");
        }
        configuration.set("yarn.resourcemanager.address", "127.0.0.1:" + arguments[0]);
        configuration.set("yarn.resourcemanager.hostname", "127.0.0.1");
        configuration.set("yarn.nodemanager.hostname", "127.0.0.1");
        configuration.set("yarn.nodemanager.local-dirs", new File(folder, "local").getPath());
        configuration.set("yarn.nodemanager.log-dirs", new File(folder, "logs").getPath());
        configuration.set("yarn.scheduler.capacity.root.queues", "default");
        configuration.set("yarn.scheduler.capacity.root.default.capacity", "100");
        configuration.set("yarn.scheduler.capacity.maximum-am-resource-percent", "0.5");
        configuration.setInt("yarn.scheduler.minimum-allocation-mb", 256);
        configuration.setInt("yarn.nodemanager.resource.memory-mb", 8192);
        configuration.setInt("yarn.nodemanager.resource.cpu-vcores", 8);
        configuration.setFloat("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", 100f);
        DefaultMetricsSystem.setMiniClusterMode(true);
        ResourceManager resources = new ResourceManager();
        resources.init(configuration);
        resources.start();
        NodeManager node = new NodeManager();
        node.init(new YarnConfiguration(resources.getConfig()));
        node.start();
        File conf = new File(folder, "conf");
        conf.mkdirs();
        try (FileOutputStream out = new FileOutputStream(new File(conf, "yarn-site.xml"))) {
            resources.getConfig().writeXml(out);
        }
        System.out.println("ready");
        Thread.currentThread().join();
    }
}
